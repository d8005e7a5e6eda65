"""A broker of the simulation: the shell that waits and sends, around the same rules that the real one has.

It keeps one replica of one partition. What is on its disk outlives it, up to what was synced when the power goes. `Bugs` puts known
mistakes back, one at a time.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from millstream.cluster.controller.controller_machine import NO_EPOCH, BrokerLife, ControllerMachine, Decision
from millstream.cluster.controller.leader_election import ElectionRules
from millstream.cluster.replica_set import ReplicaSet
from millstream.cluster.truncation import truncation_offset
from millstream.coordination.lease import Lease
from millstream.coordination.partition_state import NO_LEADER, PartitionState
from millstream.errors import KafkaError
from millstream.log.leader_epochs import EpochEnd
from millstream.replication_errors import IneligibleReplica
from millstream.topic_partition import TopicPartition
from tests.simulation.disk import Disk, Entry
from tests.simulation.world import World
from tests.simulation.zookeeper import Node, Snapshot, Write, ZooKeeper

if TYPE_CHECKING:
    from tests.simulation.history import History

NAME = TopicPartition("orders", 0)
LAG_MS = 3_000
FETCH_MS = 30
REQUEST_TIMEOUT_MS = 1_500
BATCH = 4


@dataclass(frozen=True)
class Bugs:
    """Known mistakes."""

    truncates_to_high_watermark: bool = False
    ignores_epochs: bool = False
    forgets_pending: bool = False
    ignores_lives: bool = False
    has_no_lease: bool = False
    commits_below_minimum: bool = False
    forgets_positions: bool = False
    completes_early: bool = False


class FetchRequest(NamedTuple):
    """What a follower asks of its leader."""

    replica: int
    broker_epoch: int
    leader_epoch: int
    offset: int
    last_epoch: int


class FetchAnswer(NamedTuple):
    """What the leader answers."""

    leader_epoch: int
    offset: int
    entries: tuple[Entry, ...]
    high_watermark: int
    diverging: EpochEnd | None = None


@dataclass
class Position:
    """Where a follower is in its fetch session: while it stays at the end of the log it is not counted again."""

    request: FetchRequest
    fetched_ms: int


@dataclass
class Asked:
    """Something that was sent to the controller and not answered yet."""

    base: PartitionState
    in_sync: Mapping[int, int]
    at_ms: int


@dataclass
class Broker:
    """One life of a broker."""

    number: int
    world: World
    zookeeper: ZooKeeper
    disk: Disk
    history: "History"
    peers: dict[int, "Broker"]
    rules: ElectionRules
    bugs: Bugs
    on_asked: Callable[["Broker", Mapping[int, int]], None]
    """Called when a change of the in-sync set is under way: the worst moment for a fault."""

    session: int = 0
    epoch: int = NO_EPOCH
    previous_epoch: int = NO_EPOCH
    snapshot: Snapshot | None = None
    state: PartitionState | None = None
    leading: ReplicaSet | None = None
    machine: ControllerMachine | None = None
    controller_version: int = -1
    asked: Asked | None = None
    fetch_sent_ms: int = -10_000
    lease: Lease = field(default_factory=lambda: Lease(0))
    waiters: list[tuple[int, Callable[[], None]]] = field(default_factory=list)
    is_deciding: bool = False
    positions: dict[int, Position] = field(default_factory=dict)
    complete_ms: dict[int, int] = field(default_factory=dict)
    """When each follower last had everything, as it said itself."""

    def __post_init__(self) -> None:
        self.address = f"broker-{self.number}"
        self.process = self.world.process(self.address)
        self.process.is_alive = True
        self.life = self.process.life
        self.lease = Lease(self.zookeeper.session_ms)
        self.previous_epoch, self.disk.clean_epoch = self.disk.clean_epoch, NO_EPOCH
        self._connect()
        self._tick()

    # --- the session ----------------------------------------------------------------------------------------------------------------------

    def _tick(self) -> None:
        if self.session:
            self._read()
        self._shrink()
        if self.world.random.random() < 0.1:
            self.disk.synced = len(self.disk.entries)
        self.world.after(self.zookeeper.session_ms // 4, self._tick, on=self.process)

    def _connect(self) -> None:
        if self.session:
            return
        self.zookeeper.connect(self.address, self._read, self._connected)
        self.world.after(REQUEST_TIMEOUT_MS, self._connect, on=self.process)

    def _connected(self, session: int) -> None:
        if not self.session and self._is_this_life():
            self.session = session
            self._read()

    def _is_this_life(self) -> bool:
        """Answers to a former life reach its address too."""
        return self.process.life == self.life

    def _read(self) -> None:
        self._ask([])

    def _ask(self, writes: list[Write], then: Callable[[bool], None] | None = None) -> None:
        """Write to ZooKeeper, and learn what is there; `then` hears whether it was written, if that ever becomes known."""
        if not self.session or not self._is_this_life():
            return
        session, sent_ms = self.session, self.world.now_ms

        def reply(answer: object) -> None:
            if session != self.session or not self._is_this_life():
                return
            if answer == "expired":
                self._session_over()
                return
            self.lease.answered(sent_ms)
            if then is not None:
                then(answer != "conflict")
            if isinstance(answer, Snapshot) and (self.snapshot is None or answer.zxid >= self.snapshot.zxid):
                self._learn(answer)

        self.zookeeper.ask(self.address, session, writes, reply)

    def _session_over(self) -> None:
        self.lease.ended()
        self.session, self.machine, self.is_deciding = 0, None, False
        # The process lives on and has lost nothing: its next life begins with all that this one had.
        if self.epoch != NO_EPOCH:
            self.previous_epoch, self.epoch = self.epoch, NO_EPOCH
        self._connect()

    def _learn(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        mine = snapshot.nodes.get(f"/ids/{self.number}")
        if mine is None or mine.owner != self.session:
            if mine is None:
                self._ask([Write(f"/ids/{self.number}", self.previous_epoch, None, is_ephemeral=True)])
            return
        if self.epoch == NO_EPOCH:
            self.world.note(f"{self.address} is registered, epoch {mine.created}, after {mine.value}")
        self.epoch = mine.created
        self._control(snapshot)
        self._apply(snapshot)

    # --- the controller -------------------------------------------------------------------------------------------------------------------

    def _control(self, snapshot: Snapshot) -> None:
        controller = snapshot.nodes.get("/controller")
        if controller is None:
            version = snapshot.nodes["/controller_epoch"].version
            self._ask([Write("/controller_epoch", self.number, version), Write("/controller", self.number, None, is_ephemeral=True)])
            return
        if controller.owner != self.session:
            self.machine = None
            return
        if self.machine is None:
            self.controller_version = snapshot.nodes["/controller_epoch"].version
            self.world.note(f"{self.address} is the controller")
        state = _state(snapshot)
        known = {broker: snapshot.nodes[f"/epochs/{broker}"].value for broker in self.peers if f"/epochs/{broker}" in snapshot.nodes}
        lives = _lives(snapshot)
        if self.bugs.ignores_lives:
            lives = {broker: life._replace(previous_epoch=known.get(broker, NO_EPOCH)) for broker, life in lives.items()}
        self.machine = ControllerMachine({NAME: state}, known, rules=lambda _topic: self.rules)
        decision = self.machine.brokers_changed(lives)
        self.machine.brokers = lives
        if (decision.partitions or decision.lives) and not self.is_deciding:
            self._write_decision(decision)

    def _write_decision(self, decision: Decision, then: Callable[[bool], None] | None = None) -> None:
        assert self.snapshot is not None
        writes = [Write("/controller_epoch", None, self.controller_version)]
        writes += [Write("/partition", state, state.partition_epoch) for state in decision.partitions.values()]
        for broker, epoch in decision.lives.items():
            node = self.snapshot.nodes.get(f"/epochs/{broker}")
            writes.append(Write(f"/epochs/{broker}", epoch, None if node is None else node.version))
        self.is_deciding = True

        def written(is_written: bool) -> None:
            self.is_deciding = False
            if is_written and decision.partitions:
                self.world.note(f"{self.address} decided {decision.partitions[NAME]}")
            if then is not None:
                then(is_written)

        self.world.after(REQUEST_TIMEOUT_MS, self._give_up_deciding, on=self.process)
        self._ask(writes, written)

    def _give_up_deciding(self) -> None:
        self.is_deciding = False

    def asked_for_in_sync(self, leader: int, broker_epoch: int, base: PartitionState, in_sync: Mapping[int, int]) -> None:
        """AlterPartition."""
        if self.machine is None:
            return
        peer = self.peers[leader]
        try:
            state = self.machine.in_sync_change(NAME, leader=leader, broker_epoch=broker_epoch, base=base, in_sync=in_sync)
        except IneligibleReplica:
            self.world.send(self.address, peer.address, lambda: self.peers[leader].in_sync_refused(base))
            return
        except KafkaError:
            return  # an epoch that is over, or a state that was changed: the change may have been done, so it stays pending
        if not self.is_deciding:
            self._write_decision(Decision({NAME: state}, {}))

    def asked_to_move(self, target: Sequence[int] | None) -> None:
        """AlterPartitionReassignments."""
        if self.machine is None or self.is_deciding:
            return
        try:
            state = self.machine.reassign(NAME, target)
        except KafkaError as error:
            self.world.note(f"{self.address} does not move it to {target}: {error}")
            return
        if self.bugs.completes_early and state.is_reassigning:
            wanted = state.target_replicas
            state = state._replace(replicas=wanted, in_sync_replicas=wanted, adding_replicas=(), removing_replicas=(), eligible_leaders=())
            state = state._replace(leader=wanted[0], leader_epoch=state.leader_epoch + 1)
        if state != self.machine.partitions[NAME]:
            self._write_decision(Decision({NAME: state}, {}))

    def in_sync_refused(self, base: PartitionState) -> None:
        """The controller said no, to what was asked on that base."""
        if self.asked is not None and self.asked.base == base and self.leading is not None:
            self.asked = None
            self.leading.refused()

    # --- roles ----------------------------------------------------------------------------------------------------------------------------

    def _apply(self, snapshot: Snapshot) -> None:
        life = snapshot.nodes.get(f"/epochs/{self.number}")
        if not self.bugs.ignores_lives and (life is None or life.value != self.epoch):
            return  # until the controller has looked at this life nothing that is said of the former one holds
        state = _state(snapshot)
        former = self.state
        if former is not None and state.partition_epoch <= former.partition_epoch and former != state:
            return
        self.state = state
        if self.number not in state.replicas:
            self._give_away()
            return
        if state.leader != self.number:
            is_new = former is None or self.number not in former.replicas
            if self.leading is not None or former is None or is_new or former.leader_epoch != state.leader_epoch:
                self._follow()
            return
        if self.leading is None or former is None or former.leader_epoch != state.leader_epoch:
            self._lead(state)
        else:
            self.leading.decided(state, now_ms=self.world.now_ms)
            if self.asked is not None and self.asked.base.partition_epoch < state.partition_epoch:
                self.asked = None
        self._advance()

    def _lead(self, state: PartitionState) -> None:
        self.history.leads(self, state)
        self.disk.epochs.assign(state.leader_epoch, len(self.disk.entries))
        self.asked, self.positions, self.complete_ms = None, {}, {}
        self.leading = ReplicaSet(
            self.number,
            state,
            high_watermark=self.disk.high_watermark,
            epoch_start_offset=len(self.disk.entries),
            lag_ms=LAG_MS,
            now_ms=self.world.now_ms,
        )

    def _give_away(self) -> None:
        """Others keep the partition."""
        if self.disk.entries:
            self.world.note(f"{self.address} deletes {len(self.disk.entries)} records")
        self.leading, self.asked = None, None
        self.waiters.clear()
        self.disk.truncate(0)

    def _follow(self) -> None:
        self.leading, self.asked = None, None
        self.waiters.clear()
        if self.bugs.truncates_to_high_watermark:
            self.disk.truncate(self.disk.high_watermark)
        self._fetch()

    # --- the leader -----------------------------------------------------------------------------------------------------------------------

    def produce(self, value: int, acks: int, done: Callable[[], None]) -> None:
        """A client's record."""
        leading, state = self.leading, self.state
        if leading is None or state is None:
            return
        if acks == 1:
            if not self.bugs.has_no_lease and not self.lease.is_held(self.world.now_ms) and len(state.replicas) > 1:
                return
        elif len(leading.state.in_sync_replicas) < self.rules.min_insync_replicas:
            return
        if not self.bugs.forgets_positions:
            leading.grew_from(len(self.disk.entries))
        self.disk.append([(state.leader_epoch, value)])
        if acks == 1:
            self.history.acknowledged_by_one(self)
            done()
        else:
            self.waiters.append((len(self.disk.entries), done))
        self._advance()

    def _advance(self) -> None:
        leading = self.leading
        if leading is None:
            return
        minimum = self.rules.min_insync_replicas
        if self.bugs.commits_below_minimum:
            minimum, leading.state = 1, leading.state._replace(eligible_leaders=())
        high_watermark = leading.advance(len(self.disk.entries), min_insync_replicas=minimum, now_ms=self.world.now_ms)
        self._committed(high_watermark)
        while self.waiters and self.waiters[0][0] <= high_watermark:
            _, done = self.waiters.pop(0)
            done()
        self._ask_for_in_sync()

    def _committed(self, high_watermark: int) -> None:
        if high_watermark > self.disk.high_watermark:
            self.disk.high_watermark = high_watermark
            self.history.committed(self)

    def _shrink(self) -> None:
        if self.asked is not None and self.world.now_ms - self.asked.at_ms > REQUEST_TIMEOUT_MS:
            self._send_asked()
        self._ask_for_in_sync()

    def _ask_for_in_sync(self) -> None:
        if self.leading is None or self.asked is not None or self.snapshot is None or self.epoch == NO_EPOCH:
            return
        able = _lives(self.snapshot).keys()
        wanted = self.leading.wanted_change(len(self.disk.entries), able=able, now_ms=self.world.now_ms)
        if wanted is not None:
            self.history.asks_for_in_sync(self, wanted, lag_ms=LAG_MS)
            self.asked = Asked(self.leading.state, wanted, self.world.now_ms)
            if not self.bugs.forgets_pending:
                self.leading.asked(wanted)
            self._send_asked()
            self.on_asked(self, wanted)

    def _send_asked(self) -> None:
        asked, snapshot = self.asked, self.snapshot
        if asked is None or snapshot is None or "/controller" not in snapshot.nodes:
            return
        asked.at_ms = self.world.now_ms
        controller = snapshot.nodes["/controller"].value
        epoch = self.epoch
        address = self.peers[controller].address
        request = (self.number, epoch, asked.base, asked.in_sync)
        self.world.send(self.address, address, lambda: self.peers[controller].asked_for_in_sync(*request))

    def fetched(self, request: FetchRequest) -> None:
        """A follower fetches."""
        leading, state = self.leading, self.state
        if leading is None or state is None or (request.leader_epoch != state.leader_epoch and not self.bugs.ignores_epochs):
            return
        answer = self._answer(request, leading, state)
        self.world.send(self.address, self.peers[request.replica].address, lambda: self.peers[request.replica].answered(answer))

    def _answer(self, request: FetchRequest, leading: ReplicaSet, state: PartitionState) -> FetchAnswer:
        entries, end = self.disk.entries, len(self.disk.entries)
        if request.offset > 0 and not self.bugs.truncates_to_high_watermark:
            known = self.disk.epochs.end_of(request.last_epoch, log_end_offset=end)
            if known.epoch < request.last_epoch or known.end_offset < request.offset:
                return FetchAnswer(state.leader_epoch, request.offset, (), leading.high_watermark, known)
        position = self.positions.get(request.replica)
        if request.offset == end:
            self.complete_ms[request.replica] = self.world.now_ms
        if position is not None and position.request == request and request.offset == end:
            position.fetched_ms = self.world.now_ms
        elif self._count(request, leading):
            self._advance()
        return FetchAnswer(
            state.leader_epoch, request.offset, tuple(entries[request.offset : request.offset + BATCH]), leading.high_watermark
        )

    def _count(self, request: FetchRequest, leading: ReplicaSet) -> bool:
        now_ms, end = self.world.now_ms, len(self.disk.entries)
        position = self.positions[request.replica] = Position(request, now_ms)
        epoch = -1 if self.bugs.ignores_lives else request.broker_epoch
        where = request.replica, request.offset
        return leading.fetched(*where, broker_epoch=epoch, log_start_offset=0, leader_end=end, now_ms=now_ms, position=position)

    # --- the follower ---------------------------------------------------------------------------------------------------------------------

    def _fetch(self) -> None:
        """Ask the leader for what comes next, again and again while there is one."""
        state = self.state
        if state is None or self.leading is not None or state.leader in (NO_LEADER, self.number) or self.number not in state.replicas:
            return
        self.fetch_sent_ms = self.world.now_ms
        entries = self.disk.entries
        request = FetchRequest(self.number, self.epoch, state.leader_epoch, len(entries), entries[-1][0] if entries else -1)
        leader = state.leader
        self.world.send(self.address, self.peers[leader].address, lambda: self.peers[leader].fetched(request))
        sent_ms, epoch = self.fetch_sent_ms, state.leader_epoch

        def again() -> None:
            if self.fetch_sent_ms == sent_ms and self.state is not None and self.state.leader_epoch == epoch:
                self._fetch()

        self.world.after(REQUEST_TIMEOUT_MS, again, on=self.process)

    def answered(self, answer: FetchAnswer) -> None:
        """The leader has answered; an answer of another epoch, or to another question, says nothing."""
        state = self.state
        if state is None or self.leading is not None or state.leader == self.number or self.number not in state.replicas:
            return
        if answer.leader_epoch != state.leader_epoch and not self.bugs.ignores_epochs:
            return
        if answer.offset != len(self.disk.entries):
            return
        if answer.diverging is not None:
            end = truncation_offset(self.disk.epochs, answer.diverging, log_end_offset=len(self.disk.entries))
            self.world.note(f"{self.address} truncates from {len(self.disk.entries)} to {end}")
            self.disk.truncate(end)
        else:
            self.disk.append(answer.entries)
            self._committed(min(answer.high_watermark, len(self.disk.entries)))
        self.world.after(1 if answer.entries else FETCH_MS, self._fetch, on=self.process)

    # --- ends -----------------------------------------------------------------------------------------------------------------------------

    def stop(self) -> None:
        """A clean shutdown: everything on disk, the session closed."""
        self.disk.synced = len(self.disk.entries)
        self.disk.clean_epoch = self.epoch
        self.world.kill(self.process)
        self.zookeeper.close(self.session)


def _state(snapshot: Snapshot) -> PartitionState:
    node: Node = snapshot.nodes["/partition"]
    state: PartitionState = node.value
    return state.read_at(node.version)


def _lives(snapshot: Snapshot) -> dict[int, BrokerLife]:
    return {
        int(path.rpartition("/")[2]): BrokerLife(node.created, node.value)
        for path, node in snapshot.nodes.items()
        if path.startswith("/ids/")
    }
