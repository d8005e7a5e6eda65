"""What a simulated cluster promised, and whether it kept it; checked with every step that could break it."""

from collections.abc import Collection
from typing import TYPE_CHECKING

from millstream.coordination.partition_state import PartitionState
from tests.simulation.world import World

if TYPE_CHECKING:
    from tests.simulation.broker import Broker
    from tests.simulation.disk import Entry


class Broken(AssertionError):
    """A promise was not kept."""


class History:
    """Acknowledged values, the committed log, and who led when."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.acknowledged: set[int] = set()
        self.log: list[Entry] = []
        """What was below the high watermark of any replica at any time."""
        self._leaders: dict[int, tuple[int, int]] = {}

    def leads(self, broker: "Broker", state: PartitionState) -> None:
        """A broker begins to lead: it has everything that was acknowledged, and no other leads in its epoch.

        One that was paused may hear of an epoch that is over. It can lack what a later leader has acknowledged: what counts is that it
        commits and acknowledges nothing any more, and that is looked at when it does.
        """
        self._world.note(f"{broker.address} leads in epoch {state.leader_epoch} from {len(broker.disk.entries)}")
        leader = (broker.number, broker.process.life)
        if self._leaders.setdefault(state.leader_epoch, leader)[0] != broker.number:
            raise Broken(f"brokers {self._leaders[state.leader_epoch][0]} and {broker.number} lead in epoch {state.leader_epoch}")
        if state.leader_epoch < max(self._leaders):
            return
        missing = self.acknowledged - {value for _, value in broker.disk.entries}
        if missing:
            raise Broken(f"broker {broker.number} leads without what was acknowledged: {sorted(missing)[:5]}")
        if len(broker.disk.entries) < len(self.log):
            raise Broken(f"broker {broker.number} leads, and its log ends at {len(broker.disk.entries)}; readers have seen {len(self.log)}")

    def committed(self, broker: "Broker") -> None:
        """The high watermark of a replica moved: below it all logs are equal, for ever."""
        end = broker.disk.high_watermark
        entries = broker.disk.entries[:end]
        shared = min(end, len(self.log))
        if len(entries) < end:
            raise Broken(f"broker {broker.number} takes {end} for committed, and its log ends at {len(entries)}")
        if entries[:shared] != self.log[:shared]:
            offset = next(number for number in range(shared) if entries[number] != self.log[number])
            raise Broken(f"at offset {offset} broker {broker.number} has {entries[offset]}, readers were shown {self.log[offset]}")
        self.log += entries[shared:]

    def asks_for_in_sync(self, broker: "Broker", wanted: Collection[int], *, lag_ms: int) -> None:
        """A leader asks for another in-sync set: a replica that had everything lately stays in it."""
        assert broker.leading is not None
        for replica in set(broker.leading.state.in_sync_replicas).difference(wanted):
            since_ms = self._world.now_ms - broker.complete_ms.get(replica, -lag_ms)
            if since_ms <= lag_ms:
                raise Broken(f"broker {broker.number} puts out broker {replica}, which had everything {since_ms} ms ago")

    def acknowledge(self, value: int) -> None:
        """A client heard that its record is safe."""
        self.acknowledged.add(value)

    def acknowledged_by_one(self, broker: "Broker") -> None:
        """A leader acknowledged by itself: no other can have been chosen, because its session is not over."""
        if broker.session not in broker.zookeeper.heard_ms:
            raise Broken(f"broker {broker.number} acknowledged alone, and its session was over")
