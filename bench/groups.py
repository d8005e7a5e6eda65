"""Groups: how long a rebalance takes, what a commit costs, how soon offsets are back after a restart.

Real clients wait for their own timers most of a rebalance: they learn of it with their next heartbeat. So the members here are raw
connections that answer at once, all in one thread, with frames that are as good as built before the clock starts; what remains is the
broker's part.

    classic     a member of a settled group joins again; everybody joins, the leader divides, everybody syncs; until the last answer
    new         a member joins a settled group of the others; everybody sends heartbeats, in rounds, until all have the same epoch and
                an even share, and nobody owns what another does
"""

from collections.abc import Sequence
from contextlib import ExitStack
from time import monotonic, perf_counter, sleep
from uuid import uuid4

from bench.case import Bar, BenchError, Case, Context, Metric, Values
from bench.group_wire import (
    Joined,
    check_sync,
    commit_error,
    commit_request,
    fetch_request,
    fetched_offset,
    find_coordinator_request,
    heartbeat_request,
    is_rebalancing,
    join_request,
    parse_heartbeat,
    parse_join,
    sync_request,
    topic_id_in,
)
from bench.measure import Stopwatch, median
from bench.peers.broker import Broker
from bench.raw import RawConnection
from bench.topics import create_topic

CPU_BAR = Bar(0.25, "at most", "kafka")
NOT_BEHIND = Bar(1.0, "at most", "kafka")
DEADLINE_SECONDS = 60.0
PARTITIONS_PER_MEMBER = 2
COMMITTERS = 10


def await_coordinator(broker: Broker, group: str, topic: str) -> None:
    """Wait until the group can be used: the offsets topic is made by the first who asks."""
    deadline = monotonic() + DEADLINE_SECONDS
    with broker.connect() as connection:
        while monotonic() < deadline:
            connection.call(find_coordinator_request(group))
            if fetched_offset(connection.call(fetch_request(group, topic, partition=0))) is not None:
                return
            sleep(0.01)
    raise BenchError(f"the group {group} has no coordinator after {DEADLINE_SECONDS:g} s")


class ClassicMembers:
    """A settled group of the classic protocol.

    Every time the members say something else to their leader: a member that repeats itself is told the present generation at once, and
    only the leader's repetition would start a rebalance.
    """

    def __init__(self, connections: Sequence[RawConnection], group: str) -> None:
        self.group = group
        self.connections = connections[:1]
        joined = self.rebalance([join_request(group, "", data=b"0")])
        for connection in connections[1:]:
            joined = self._admit(connection, joined)
        self.frames = [[join_request(group, one.member_id, data=b"%d" % turn) for one in joined] for turn in (1, 2)]

    def _admit(self, newcomer: RawConnection, settled: Sequence[Joined]) -> list[Joined]:
        """One member more; the others wait until the broker has heard of it, or they would settle without it."""
        newcomer.socket.sendall(join_request(self.group, "", data=b"0"))
        while not is_rebalancing(self.connections[0], self.group, settled[0]):
            sleep(0.001)
        for connection, one in zip(self.connections, settled, strict=True):
            connection.socket.sendall(join_request(self.group, one.member_id, data=b"0"))
        self.connections = [*self.connections, newcomer]
        return self._finish()

    def rebalance(self, frames: Sequence[bytes]) -> list[Joined]:
        """Everybody joins, the leader divides, everybody syncs."""
        for connection, frame in zip(self.connections, frames, strict=True):
            connection.socket.sendall(frame)
        return self._finish()

    def _finish(self) -> list[Joined]:
        joined = [parse_join(connection.read_answer()) for connection in self.connections]
        if len({one.generation for one in joined}) != 1:
            raise BenchError("the members are not in one generation")
        parts = {one.member_id: b"a few partitions" for one in joined}
        for connection, one in zip(self.connections, joined, strict=True):
            assignments = parts if one.member_id == one.leader else {}
            frame = sync_request(self.group, one.member_id, generation=one.generation, assignments=assignments)
            connection.socket.sendall(frame)
        for connection in self.connections:
            check_sync(connection.read_answer())
        return joined


class NewMember:
    """A member of the new protocol that does at once what it is told."""

    def __init__(self, connection: RawConnection, group: str, topic: str) -> None:
        self.connection = connection
        self.group = group
        self.topic = topic
        self.member_id = str(uuid4())
        self.epoch = 0
        self.topic_id = bytes(16)
        self.owned: tuple[int, ...] = ()

    def join(self) -> None:
        self.epoch, self.owned = 0, ()
        self._send(heartbeat_request(self.group, self.member_id, epoch=0, topics=[self.topic], owned=None))
        self.hear()

    def leave(self) -> None:
        self._send(heartbeat_request(self.group, self.member_id, epoch=-1, topics=None, owned=None))
        parse_heartbeat(self.connection.read_answer())

    def beat(self) -> None:
        owned = (self.topic_id, self.owned)
        self._send(heartbeat_request(self.group, self.member_id, epoch=self.epoch, topics=None, owned=owned))

    def hear(self) -> None:
        answer = self.connection.read_answer()
        self.topic_id = topic_id_in(answer) or self.topic_id
        heard = parse_heartbeat(answer)
        self.epoch = heard.epoch
        if heard.partitions is not None:
            self.owned = heard.partitions

    def _send(self, frame: bytes) -> None:
        self.connection.socket.sendall(frame)


def converge(members: Sequence[NewMember], *, share: int) -> None:
    """Rounds of heartbeats until everybody has `share` partitions in one epoch."""
    deadline = monotonic() + DEADLINE_SECONDS
    while len({member.epoch for member in members}) > 1 or any(len(member.owned) != share for member in members):
        if monotonic() > deadline:
            raise BenchError(f"no agreement: {[(member.epoch, len(member.owned)) for member in members]}")
        for member in members:
            member.beat()
        for member in members:
            member.hear()


class Rebalance(Case):
    """One size of group, one protocol."""

    def __init__(self, members: int, *, protocol: str, times: int) -> None:
        self.members = members
        self.protocol = protocol
        self.times = times
        self.name = f"rebalance-{protocol}-{members}"
        self.title = f"rebalance of {members} members, {protocol} protocol"
        self.metrics = (Metric("time", "ms", NOT_BEHIND), Metric("broker CPU", "ms each", CPU_BAR))

    def prepare(self, context: Context) -> None:
        """A topic, and one round that does not count, for a JVM's sake."""
        create_topic(context.broker, self.name, partitions=PARTITIONS_PER_MEMBER * self.members)
        await_coordinator(context.broker, self.name, self.name)
        self.run(context)

    def run(self, context: Context) -> Values:
        group = f"{context.topic(self)}-{uuid4().hex[:6]}"
        await_coordinator(context.broker, group, self.name)
        with ExitStack() as stack:
            connections = [stack.enter_context(context.broker.connect()) for _ in range(self.members)]
            measure = self._classic if self.protocol == "classic" else self._new
            durations, watch = measure(context.broker, connections, group=group)
        return {"time": median(durations) * 1000, "broker CPU": watch.cpu * 1000 / self.times}

    def _classic(self, broker: Broker, connections: Sequence[RawConnection], *, group: str) -> tuple[list[float], Stopwatch]:
        members = ClassicMembers(connections, group)
        durations = []
        with Stopwatch(broker.pid) as watch:
            for turn in range(self.times):
                before = perf_counter()
                members.rebalance(members.frames[turn % 2])
                durations.append(perf_counter() - before)
        return durations, watch

    def _new(self, broker: Broker, connections: Sequence[RawConnection], *, group: str) -> tuple[list[float], Stopwatch]:
        members = [NewMember(connection, group, self.name) for connection in connections]
        for member in members:
            member.join()
        converge(members, share=PARTITIONS_PER_MEMBER)
        durations = []
        with Stopwatch(broker.pid) as watch:
            for _ in range(self.times):
                members[-1].leave()
                self._settle(members[:-1])
                before = perf_counter()
                members[-1].join()
                converge(members, share=PARTITIONS_PER_MEMBER)
                durations.append(perf_counter() - before)
        return durations, watch

    def _settle(self, members: Sequence[NewMember]) -> None:
        """Until those who stay have divided everything."""
        total = PARTITIONS_PER_MEMBER * self.members
        deadline = monotonic() + DEADLINE_SECONDS
        while sum(len(member.owned) for member in members) != total or len({member.epoch for member in members}) > 1:
            if monotonic() > deadline:
                raise BenchError("the members that stayed did not divide what was left")
            for member in members:
                member.beat()
            for member in members:
                member.hear()


class Commits(Case):
    """Ten groups that commit as fast as they are answered, one partition or a hundred at a time."""

    def __init__(self, count: int, *, partitions: int) -> None:
        self.count = count
        self.partitions = partitions
        self.name = f"commits-{partitions}"
        self.title = f"commits of {partitions} partition{'s' if partitions > 1 else ''}, {COMMITTERS} groups"
        self.metrics = (
            Metric("throughput", "commits/s", Bar(1.0, "at least", "kafka"), summary="max"),
            Metric("broker CPU", "ms per 1000", CPU_BAR),
        )

    def prepare(self, context: Context) -> None:
        create_topic(context.broker, self.name, partitions=self.partitions)
        for number in range(COMMITTERS):
            await_coordinator(context.broker, self._group(number), self.name)
        self.run(context)
        self.run(context)

    def run(self, context: Context) -> Values:
        frames = [
            commit_request(self._group(number), self.name, offsets=dict.fromkeys(range(self.partitions), context.round_number))
            for number in range(COMMITTERS)
        ]
        rounds = self.count // COMMITTERS
        with ExitStack() as stack:
            connections = [stack.enter_context(context.broker.connect()) for _ in frames]
            with Stopwatch(context.broker.pid) as watch:
                for _ in range(rounds):
                    for connection, frame in zip(connections, frames, strict=True):
                        connection.socket.sendall(frame)
                    for connection in connections:
                        if error := commit_error(connection.read_answer()):
                            raise BenchError(f"OffsetCommit answered error {error}")
        done = rounds * COMMITTERS
        return {"throughput": watch.rate(done), "broker CPU": watch.cpu_per_million(done)}

    def _group(self, number: int) -> str:
        return f"{self.name}-{number}"


class OffsetsLoad(Case):
    """Restart after kill -9 with many committed offsets; ready when every group tells its own."""

    isolated = True
    TOPIC = "offsets-load"
    PARTITIONS = 100

    def __init__(self, offsets: int, *, max_rounds: int = 3) -> None:
        self.groups = offsets // self.PARTITIONS
        self.max_rounds = max_rounds
        self.name = f"offsets-load-{offsets}"
        self.title = f"{offsets} committed offsets after a restart"
        self.metrics = (
            Metric("start to loaded", "s", NOT_BEHIND),
            Metric("Metadata to loaded", "s", NOT_BEHIND),
            Metric("CPU to loaded", "s", CPU_BAR),
        )

    def run(self, context: Context) -> Values:
        directory = context.directory / f"round-{context.round_number}"
        broker = context.peer.start(directory)
        try:
            create_topic(broker, self.TOPIC, partitions=self.PARTITIONS)
            self._commit(broker)
            broker.kill()
            started_at = monotonic()
            broker = context.peer.start(directory)
            answering = monotonic()
            self._await_offsets(broker)
            loaded = monotonic()
            cpu = broker.cpu_seconds()
        finally:
            broker.kill()
        return {"start to loaded": loaded - started_at, "Metadata to loaded": loaded - answering, "CPU to loaded": cpu}

    def _commit(self, broker: Broker) -> None:
        for number in range(self.groups):
            if number < 60:
                await_coordinator(broker, _name(number), self.TOPIC)
        with broker.connect() as connection:
            for number in range(self.groups):
                self._commit_one(connection, number)

    def _commit_one(self, connection: RawConnection, number: int) -> None:
        frame = commit_request(_name(number), self.TOPIC, offsets=dict.fromkeys(range(self.PARTITIONS), number))
        deadline = monotonic() + DEADLINE_SECONDS
        while error := commit_error(connection.call(frame)):
            if monotonic() > deadline:
                raise BenchError(f"OffsetCommit answered error {error}")
            sleep(0.01)

    def _await_offsets(self, broker: Broker) -> None:
        deadline = monotonic() + DEADLINE_SECONDS
        with broker.connect() as connection:
            for number in range(self.groups):
                frame = fetch_request(_name(number), self.TOPIC, partition=number % self.PARTITIONS)
                while (offset := fetched_offset(connection.call(frame))) is None:
                    if monotonic() > deadline:
                        raise BenchError(f"the offsets were not loaded {DEADLINE_SECONDS:g} s after the restart")
                    connection.call(find_coordinator_request(_name(number)))
                    sleep(0.002)
                if offset != number:
                    raise BenchError(f"the group {_name(number)} had committed {number} and has {offset}")


def _name(number: int) -> str:
    return f"group-{number}"
