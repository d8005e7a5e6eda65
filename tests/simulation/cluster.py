"""A simulated cluster under a seeded schedule of faults, with clients that write all the time, and perhaps an operator.

Three brokers keep the partition; with an operator there are five, and it is moved about between them.
"""

from collections.abc import Callable, Mapping

from millstream.cluster.controller.leader_election import ElectionRules
from millstream.coordination.partition_state import PartitionState
from tests.simulation.broker import Broker, Bugs
from tests.simulation.disk import Disk
from tests.simulation.history import Broken, History
from tests.simulation.world import World
from tests.simulation.zookeeper import ADDRESS, Node, ZooKeeper

REPLICAS = (1, 2, 3)
MORE_BROKERS = (4, 5)
SESSION_MS = 2_000
RULES = ElectionRules(min_insync_replicas=2)


class Cluster:
    """Brokers, a ZooKeeper, clients, and faults."""

    def __init__(self, seed: int, *, bugs: Bugs | None = None, rules: ElectionRules = RULES, is_moved: bool = False) -> None:
        self.world = World(seed)
        self.history = History(self.world)
        self.zookeeper = ZooKeeper(self.world, session_ms=SESSION_MS)
        self.zookeeper.nodes["/controller_epoch"] = Node(0, 0, 0)
        self.zookeeper.nodes["/partition"] = Node(PartitionState.first(REPLICAS), 0, 0)
        self.disks = {number: Disk() for number in (*REPLICAS, *(MORE_BROKERS if is_moved else ()))}
        self.brokers: dict[int, Broker] = {}
        self._bugs = bugs or Bugs()
        self._rules = rules
        self._values = 0
        self._is_over = False
        self._has_lost_power = False
        self._numbers = tuple(self.disks)
        for number in self._numbers:
            self.start(number)
        self._write()
        self.world.after(3_000, self._fault)
        if is_moved:
            self.world.after(2_000, self._move)

    def start(self, number: int) -> None:
        """A new life."""
        process = self.world.process(f"broker-{number}")
        if not process.is_alive or number not in self.brokers:
            self.brokers[number] = Broker(
                number,
                self.world,
                self.zookeeper,
                self.disks[number],
                self.history,
                self.brokers,
                self._rules,
                self._bugs,
                self._in_sync_change_asked,
            )

    @property
    def state(self) -> PartitionState:
        """As it is in ZooKeeper."""
        node = self.zookeeper.nodes["/partition"]
        state: PartitionState = node.value
        return state.read_at(node.version)

    # --- clients --------------------------------------------------------------------------------------------------------------------------

    def _write(self) -> None:
        random = self.world.random
        self._values += 1
        value, acks = self._values, 1 if random.random() < 0.2 else -1
        # Now and then to a broker that only believes to be the leader.
        number = self.state.leader if random.random() < 0.8 else random.choice(self._numbers)
        if number > 0:
            broker = self.brokers[number]

            def done() -> None:
                if acks == -1:
                    self.world.send(broker.address, "client", lambda: self.history.acknowledge(value))

            self.world.send("client", broker.address, lambda: self.brokers[number].produce(value, acks, done), may_repeat=False)
        self.world.after(random.randint(5, 60), self._write)

    # --- the operator ---------------------------------------------------------------------------------------------------------------------

    def _move(self) -> None:
        """Ask the controller to put the partition elsewhere, or to take that back."""
        if self._is_over:
            return
        random, controller = self.world.random, self.zookeeper.nodes.get("/controller")
        target = None if random.random() < 0.2 else random.sample(self._numbers, random.choice([2, 3, 3]))
        if controller is not None:
            self.world.note(f"move to {target}, from {self.state}")
            asked = self.brokers[controller.value]
            self.world.send("client", asked.address, lambda: self.brokers[controller.value].asked_to_move(target))
        self.world.after(random.randint(200, 4_000), self._move)

    # --- faults ---------------------------------------------------------------------------------------------------------------------------

    def _fault(self) -> None:
        if self._is_over:
            return
        random = self.world.random
        broker = self.brokers[random.choice(self._numbers)]
        faults: list[Callable[[Broker], None]] = [self._pause, self._cut, self._zookeeper_away]
        if self._is_whole():
            self._has_lost_power = False
            faults += [self._power_cut, self._power_cut]
        if not self._has_lost_power:
            faults += [self._kill, self._kill, self._stop]
        if broker.process.is_alive and not broker.process.is_paused:
            random.choice(faults)(broker)
        self.world.after(random.randint(100, 5_000), self._fault)

    def _is_whole(self) -> bool:
        """Nothing else is broken: the promise is about one broker that loses power, while none of the others ends."""
        state = self.state
        has_all = set(state.in_sync_replicas) >= set(state.replicas).difference(state.adding_replicas)
        return has_all and all(map(self._is_settled, self.brokers.values()))

    def _is_settled(self, broker: Broker) -> bool:
        life = self.zookeeper.nodes.get(f"/epochs/{broker.number}")
        is_known = life is not None and life.value == broker.epoch
        return broker.process.is_alive and not broker.process.is_paused and is_known

    def _kill(self, broker: Broker) -> None:
        self.world.note(f"kill {broker.address}")
        self.world.kill(broker.process)
        self._restart_later(broker)

    def _power_cut(self, broker: Broker) -> None:
        self.world.note(f"power cut of {broker.address}, {len(broker.disk.entries) - broker.disk.synced} not synced")
        self.world.kill(broker.process)
        broker.disk.lose_power()
        self._has_lost_power = True
        self._restart_later(broker)

    def _stop(self, broker: Broker) -> None:
        self.world.note(f"stop {broker.address}")
        broker.stop()
        self._restart_later(broker)

    def _restart_later(self, broker: Broker) -> None:
        self.world.after(self.world.random.choice([50, 500, 4_000, 9_000]), lambda: self.start(broker.number))

    def _pause(self, broker: Broker) -> None:
        self.world.note(f"pause {broker.address}")
        broker.process.is_paused = True
        self.world.after(self.world.random.choice([300, 1_500, 6_000]), lambda: self.world.resume(broker.process))

    def _cut(self, broker: Broker) -> None:
        others = [other.address for other in self.brokers.values() if other is not broker]
        far = self.world.random.choice([[ADDRESS], others, [ADDRESS, *others], others[:1], ["client"]])
        links = {(broker.address, other) for other in far}
        if self.world.random.random() < 0.6:
            links |= {(other, broker.address) for other in far}
        elif self.world.random.random() < 0.5:
            links = {(other, broker.address) for other in far}
        self.world.note(f"cut {sorted(links)}")
        self.world.cuts |= links

        def heal() -> None:
            self.world.cuts -= links

        self.world.after(self.world.random.choice([500, 3_000, 8_000]), heal)

    def _in_sync_change_asked(self, leader: Broker, wanted: Mapping[int, int]) -> None:
        """Now and then the replica that is about to join hears no more of its leader, and all others end."""
        assert leader.leading is not None
        joining = set(wanted) - set(leader.leading.state.in_sync_replicas)
        if not joining or self._is_over or self._has_lost_power or self.world.random.random() < 0.7:
            return
        links = {(leader.address, f"broker-{number}") for number in joining}
        self.world.note(f"{leader.address} asks for {sorted(wanted)}; cut {sorted(links)}")
        self.world.cuts |= links

        def end() -> None:
            self.world.cuts.difference_update(links)
            for broker in () if self._has_lost_power else self.brokers.values():
                if broker.number not in joining and broker.process.is_alive:
                    self._kill(broker)

        self.world.after(self.world.random.randint(100, 2_500), end)

    def _zookeeper_away(self, _broker: Broker) -> None:
        self.world.note("zookeeper is away")
        self.zookeeper.is_away = True
        self.world.after(self.world.random.choice([500, 5_000]), self.zookeeper.come_back)

    # --- the run --------------------------------------------------------------------------------------------------------------------------

    def run(self, *, seconds: int = 40) -> None:
        """Faults for so long, then heal everything, and see whether the cluster is whole and has kept what it promised."""
        self.world.run(seconds * 1_000)
        self._is_over = True
        self.world.run(self.world.now_ms + 15_000)
        self.world.cuts.clear()
        for _ in range(300):
            self.world.run(self.world.now_ms + 100)
            if self._is_whole() and not self.state.is_reassigning and self._have_all_everything():
                return
        lacks = {number: sorted(self._missing(self.brokers[number]))[:5] for number in self.state.replicas}
        raise Broken(f"not whole again: {self.state}; of what was acknowledged, missing on each: {lacks}")

    def _have_all_everything(self) -> bool:
        keep = [self.brokers[number] for number in self.state.replicas]
        others = [broker for broker in self.brokers.values() if broker not in keep]
        have_all = all(not self._missing(broker) and len(broker.disk.entries) >= len(self.history.log) for broker in keep)
        return have_all and not any(broker.disk.entries for broker in others)

    def _missing(self, broker: Broker) -> set[int]:
        return self.history.acknowledged - {value for _, value in broker.disk.entries}
