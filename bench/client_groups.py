"""The paper's groups on a real ZooKeeper: how long a rebalance takes, and how much is written to ZooKeeper.

    rebalance   10 consumers over 100 partitions; one more comes, one leaves: from the call until every partition has the right owner again
    writes      one consumer that commits once a second, at different message rates: transactions of ZooKeeper per second, which must not
                follow the rate. Counted by ZooKeeper itself, from its transaction ids

All consumers run in this process, so their threads share one interpreter: consumers of their own processes are faster.
"""

import socket
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from time import monotonic, perf_counter, sleep

from bench.case import Bar, BenchError, Case, Context, Metric, Values
from bench.load import VALUE
from bench.peers.broker import Broker
from bench.peers.millstream import Millstream
from bench.topics import create_topic
from millstream import Consumer, Producer
from tests.cluster.server_process import ServerProcess, missing_zookeeper

DEADLINE_SECONDS = 60.0
LOOK_SECONDS = 0.005


@contextmanager
def broker_on_zookeeper(context: Context) -> Iterator[tuple[Broker, ServerProcess]]:
    """A ZooKeeper and a broker that uses it."""
    reason = missing_zookeeper()
    if reason is not None:
        raise BenchError(reason)
    directory = context.directory / f"round-{context.round_number}"
    directory.mkdir(parents=True)
    zookeeper = ServerProcess("zookeeper", directory)
    zookeeper.start()
    try:
        broker = Millstream(zookeeper=zookeeper.address).start(directory / "broker")
        try:
            yield broker, zookeeper
        finally:
            broker.stop()
    finally:
        zookeeper.kill()


class ClientRebalance(Case):
    """Members come and go in a settled group."""

    isolated = True

    def __init__(self, *, members: int, partitions: int) -> None:
        self.members, self.partitions = members, partitions
        self.name, self.title = "client-rebalance", f"rebalance, {members} consumers, {partitions} partitions, ZooKeeper"
        bar = Bar(2.0, "at most", "value")
        self.metrics = (Metric("one comes", "s", bar), Metric("one leaves", "s", bar), Metric("all come at once", "s"))

    def run(self, context: Context) -> Values:
        with broker_on_zookeeper(context) as (broker, zookeeper), ExitStack() as stack:
            create_topic(broker, "clicks", partitions=self.partitions)
            consumers = [stack.enter_context(Consumer(zookeeper.address, "bench")) for _ in range(self.members)]
            at_once = self._timed(lambda: self._join(consumers[:-1]), consumers[:-1])
            comes = self._timed(lambda: self._join(consumers[-1:]), consumers)
            leaves = self._timed(consumers[0].close, consumers[1:])
            return {"one comes": comes, "one leaves": leaves, "all come at once": at_once}

    def _join(self, consumers: list[Consumer]) -> None:
        threads = [threading.Thread(target=consumer.create_message_streams, args=("clicks",)) for consumer in consumers]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(DEADLINE_SECONDS)

    def _timed(self, change: Callable[[], None], members: list[Consumer]) -> float:
        started = perf_counter()
        change()
        deadline = monotonic() + DEADLINE_SECONDS
        while not self._is_even(members):
            if monotonic() > deadline:
                raise BenchError(f"not settled after {DEADLINE_SECONDS:g} s")
            sleep(LOOK_SECONDS)
        return perf_counter() - started

    def _is_even(self, members: list[Consumer]) -> bool:
        owned = [partition for consumer in members for stream in consumer.streams for partition in stream.partitions]
        shares = [sum(len(stream.partitions) for stream in consumer.streams) for consumer in members]
        return max(Counter(owned).values(), default=0) == 1 and len(owned) == self.partitions and max(shares) - min(shares) <= 1


class ClientWrites(Case):
    """Writes to ZooKeeper at several message rates."""

    isolated = True
    max_rounds = 1

    def __init__(self, rates: tuple[int, ...], *, seconds: float) -> None:
        self.rates, self.seconds = rates, seconds
        self.name, self.title = "client-writes", "ZooKeeper transactions of one consumer"
        self.metrics = (
            *(Metric(f"at {rate:,} msg/s", "per s") for rate in rates),
            Metric("most / least", "times", Bar(1.5, "at most", "value")),
        )

    def run(self, context: Context) -> Values:
        with broker_on_zookeeper(context) as (broker, zookeeper), Consumer(zookeeper.address, "bench") as consumer:
            create_topic(broker, "clicks", partitions=8)
            [stream] = consumer.create_message_streams("clicks")
            threading.Thread(target=lambda: [message.payload for message in stream], daemon=True).start()
            written = [self._writes_per_second(broker, zookeeper, rate) for rate in self.rates]
        values = {f"at {rate:,} msg/s": writes for rate, writes in zip(self.rates, written, strict=True)}
        return {**values, "most / least": max(written) / min(written)}

    def _writes_per_second(self, broker: Broker, zookeeper: ServerProcess, rate: int) -> float:
        per_tick = max(rate // 100, 1)
        with Producer(broker.bootstrap_servers) as producer:
            before, started = transactions(zookeeper.port), monotonic()
            for tick in range(int(self.seconds * rate / per_tick)):
                producer.send("clicks", [VALUE] * per_tick)
                sleep(max(started + (tick + 1) * per_tick / rate - monotonic(), 0))
            return (transactions(zookeeper.port) - before) / (monotonic() - started)


def transactions(port: int) -> int:
    """How many transactions ZooKeeper has carried out, from its last id."""
    with socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
        connection.sendall(b"srvr")
        answer = b"".join(iter(lambda: connection.recv(4096), b""))
    line = next(line for line in answer.splitlines() if line.startswith(b"Zxid:"))
    return int(line.split()[1], 16) & 0xFFFFFFFF
