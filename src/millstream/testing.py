"""A broker inside a Python process, for tests: real clients connect to it over TCP as to any other.

    with Broker() as broker:
        producer = confluent_kafka.Producer({"bootstrap.servers": broker.bootstrap_servers})
        ...
        assert [message.payload for message in broker.consume("clicks", 2)] == [b"/home", b"/cart"]

Each broker has a thread with an event loop of its own, a temporary directory and free ports on the loopback interface, so several can run
beside each other and beside an event loop of the test (`async with` works as well). The data are gone after the stop, unless a directory
was given: then the next broker on that directory has them again. `Broker(registry=True)` has a schema registry beside it, at
`registry_url`; it starts, as a process of its own, with the first request. `Broker(processes=2)` is a cluster of two brokers, in processes
of their own. All of it, with pytest's fixtures: docs/testing.md.

Not for production, where `millstream serve` gives the broker a process of its own: here it shares the interpreter with the test.
"""

import asyncio
import tempfile
import threading
from collections.abc import Callable, Coroutine, Iterator, Mapping
from concurrent.futures import Future
from contextlib import AsyncExitStack, contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from millstream.address import Address
from millstream.broker.network.event_loop import BrokerLoop
from millstream.broker.server_options import ServerOptions
from millstream.errors import UsageError
from millstream.registry.extra import INSTALL, missing_packages
from millstream.testing_broker.jumping_clock import JumpingClock

if TYPE_CHECKING:
    from millstream.paper.message import ConsumedMessage, Headers, Message, Payload
    from millstream.processes.broker_processes import BrokerProcesses
    from millstream.testing_broker.server import BrokerUnderTest

LOOPBACK = "127.0.0.1"
_CALL_S = 60.0

OptionText = str | int | bool

DEFAULTS: Mapping[str, str] = {"offsets.topic.num.partitions": "1"}
"""Where a test wants something else than production: fifty partitions for the offsets of groups take longer to make than most tests."""


class Broker:
    """A broker that runs while the `with` block does; options have Kafka's names, as in `Broker({"num.partitions": 3})`."""

    def __init__(
        self,
        options: Mapping[str, OptionText] | None = None,
        *,
        data: Path | str | None = None,
        port: int = 0,
        node_id: int = 1,
        registry: bool = False,
        processes: int = 0,
    ) -> None:
        """With `processes`, so many brokers, each in a process of its own, as `millstream serve --processes` runs them."""
        self._options = {**DEFAULTS, **_texts(options)}
        self._processes = processes
        self._data = None if data is None else Path(data)
        if not 0 <= port <= 65_535:
            raise UsageError(f"port={port}: give a port from 1 to 65535, or 0 for one that is free")
        self._port = port
        self._node_id = node_id
        self._has_registry = registry
        self._clock = JumpingClock()
        self._running: _RunningBroker | None = None
        self._temporary: tempfile.TemporaryDirectory[str] | None = None

    @property
    def bootstrap_servers(self) -> str:
        """Where clients connect: `127.0.0.1:PORT`."""
        return str(self._started().places.broker)

    @property
    def coordination(self) -> str:
        """Where the embedded coordination listens, for a ZooKeeper client: `127.0.0.1:PORT`."""
        return str(self._started().places.coordination)

    @property
    def registry_url(self) -> str:
        """Where the schema registry is: `http://127.0.0.1:PORT`."""
        address = self._started().places.registry
        if address is None:
            missing = missing_packages()
            reason = f"it needs {' and '.join(missing)}: {INSTALL}" if missing else "make it with Broker(registry=True)"
            raise UsageError(f"The broker has no registry: {reason}")
        return f"http://{address}"

    # --- starting and stopping

    def start(self) -> Self:
        """Start the broker and return when it accepts clients; raises what kept it from starting."""
        assert self._running is None, "the broker is already running"
        if self._has_registry and (missing := missing_packages()):
            raise UsageError(f"A registry needs {' and '.join(missing)}: {INSTALL}")
        if self._data is None:
            self._temporary = tempfile.TemporaryDirectory(prefix="millstream-")
        try:
            self._launch(_Places(Address(LOOPBACK, self._port), Address(LOOPBACK, 0), Address(LOOPBACK, 0) if self._has_registry else None))
        except BaseException:
            self._discard_data()
            raise
        return self

    def stop(self) -> None:
        """Stop cleanly; a broker that is not running is fine."""
        running, self._running = self._running, None
        try:
            if running is not None:
                running.stop()
        finally:
            self._discard_data()

    @contextmanager
    def down(self) -> Iterator[None]:
        """Stop the broker for as long as the `with` block lasts; then it is back, with its data and at its addresses."""
        running, self._running = self._started(), None
        running.stop()
        try:
            yield
        finally:
            self._launch(running.places)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    async def __aenter__(self) -> Self:
        return await asyncio.to_thread(self.start)

    async def __aexit__(self, *_: object) -> None:
        await asyncio.to_thread(self.stop)

    # --- what tests do

    def create_topic(self, topic: str, *, partitions: int = 1, options: Mapping[str, OptionText] | None = None) -> None:
        """Create a topic and return when it can be used; its options have Kafka's names."""
        from millstream.testing_broker.messages import create_topic  # here and below: who only starts a broker does without

        create_topic(self.bootstrap_servers, topic, partitions=partitions, options=_texts(options))

    def produce(
        self,
        topic: str,
        *messages: "Message | Payload",
        key: "Payload" = None,
        headers: "Mapping[str, bytes | None] | Headers | None" = None,
        timestamp: int | datetime | None = None,
        partition: int | None = None,
    ) -> None:
        """Write messages and return when they are written: payloads, all with this key, headers and time, or each a `Message`.

        Without a time it is the broker's, as `jump` has set it. A key decides the partition as in every client; without one the messages
        take turns over the partitions.
        """
        from millstream.paper.message import Message
        from millstream.testing_broker.messages import produce

        whole = [one if isinstance(one, Message) else Message(one, key, headers=headers, timestamp=timestamp) for one in messages]
        produce(self.bootstrap_servers, topic, whole, partition=partition, now_ms=self._clock.now_ms())

    def consume(self, topic: str, count: int = 0, *, timeout_s: float = 10.0) -> "list[ConsumedMessage]":
        """All messages of a topic, partition after partition, as soon as there are at least `count`; AssertionError if there are fewer.

        It reads from the beginning each time, commits nothing and joins no group.
        """
        from millstream.testing_broker.messages import consume

        return consume(self.bootstrap_servers, topic, count, timeout_s=timeout_s)

    def wait_for_lag(self, group: str, topic: str, *, max_lag: int = 0, timeout_s: float = 30.0) -> None:
        """Wait until a consumer group has committed all messages of a topic but `max_lag`; AssertionError, with its lag, if it does not."""
        from millstream.testing_broker.messages import wait_for_lag

        wait_for_lag(self.bootstrap_servers, group, topic, max_lag=max_lag, timeout_s=timeout_s)

    def jump(self, distance: timedelta) -> None:
        """Set the broker's clock forward and apply retention as of then; what is too old by now cannot be read any more."""
        running = self._started()
        running.call(running.broker_under_test().jump(distance))

    def fail_next(self, api: str, error: str, *, times: int = 1) -> None:
        """Answer the next requests for an API with an error, and do nothing of them: `fail_next("Produce", "NOT_LEADER_OR_FOLLOWER")`.

        Which APIs and errors there are stands in docs/testing.md, and in the UsageError for any other.
        """
        running = self._started()
        server = running.broker_under_test()
        running.call(_later(lambda: server.fail_next(api, error, times)))

    @property
    def failed_requests(self) -> Mapping[str, int]:
        """How many requests `fail_next` has let fail, by the names of their APIs."""
        return dict(self._started().broker_under_test().failed_requests)

    # --- inside

    def _launch(self, places: "_Places") -> None:
        options = ServerOptions(
            listen_host=places.broker.host,
            listen_port=places.broker.port,
            coordination_host=places.coordination.host,
            coordination_port=places.coordination.port,
            data=(self._data or Path(self._temporary.name if self._temporary else ""),),
            node_id=self._node_id,
            options=self._options,
        )
        self._running = _RunningBroker(options, self._clock, places, processes=self._processes)

    def _started(self) -> "_RunningBroker":
        if self._running is None:
            raise RuntimeError("The broker is not running: use it inside its `with` block.")
        return self._running

    def _discard_data(self) -> None:
        if self._temporary is not None:
            self._temporary.cleanup()
            self._temporary = None


class _Places(NamedTuple):
    """Where a broker listens, or shall; port 0 is any."""

    broker: Address
    coordination: Address
    registry: Address | None


class _RunningBroker:
    """The thread of a broker; the constructor returns when the broker is ready, `stop` when the thread has ended."""

    server: "BrokerUnderTest | BrokerProcesses"

    def __init__(self, options: ServerOptions, clock: JumpingClock, places: _Places, *, processes: int) -> None:
        self._clock = clock
        self._processes = processes
        self._stop: asyncio.Event | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ready: Future[None] = Future()
        self._ended: Future[None] = Future()
        self.places = places
        # A daemon, so that a test run which forgot to stop its broker still ends.
        self._thread = threading.Thread(target=self._run, args=(options,), name="millstream-broker", daemon=True)
        self._thread.start()
        self._ready.result()

    def broker_under_test(self) -> "BrokerUnderTest":
        """The broker, if it is in this process: then its clock jumps, and its requests can be made to fail."""
        from millstream.testing_broker.server import BrokerUnderTest  # as below

        if not isinstance(self.server, BrokerUnderTest):
            raise UsageError(
                "The clocks and requests of brokers in processes of their own are out of reach: make it with Broker(processes=0)."
            )
        return self.server

    def call(self, work: Coroutine[Any, Any, None]) -> None:
        """Let the broker's thread do something, and wait for it."""
        assert self._loop is not None
        asyncio.run_coroutine_threadsafe(work, self._loop).result(_CALL_S)

    def stop(self) -> None:
        """Ask for the end, wait for it, and raise what the broker ended with, if that was an error."""
        if self._loop is not None and self._stop is not None and not self._ended.done():
            self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()
        self._ended.result()

    def _run(self, options: ServerOptions) -> None:
        try:
            with asyncio.Runner(loop_factory=BrokerLoop) as runner:
                runner.run(self._serve(options))
        except BaseException as error:  # noqa: BLE001 - it is raised again, in the thread that started or stops the broker
            target = self._ended if self._ready.done() else self._ready
            target.set_exception(error)
        else:
            self._ended.set_result(None)

    async def _serve(self, options: ServerOptions) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        async with AsyncExitStack() as stack:
            self.server = server = await self._make_server(options)
            await stack.enter_async_context(server)
            registry = await self._start_registry(stack) if self.places.registry is not None else None
            self.places = _Places(Address(*server.address), Address(*server.coordination_address), registry)
            self._ready.set_result(None)
            asked = asyncio.create_task(self._stop.wait())
            stopped = asyncio.create_task(server.stopped())
            await asyncio.wait({asked, stopped}, return_when=asyncio.FIRST_COMPLETED)
            if stopped.done():
                stopped.result()

    async def _make_server(self, options: ServerOptions) -> "BrokerUnderTest | BrokerProcesses":
        # Here: not needed by who only imports this module, say to annotate a fixture.
        if self._processes:
            from millstream.processes.broker_processes import BrokerProcesses

            return BrokerProcesses(options, self._processes, log_level="warning")
        from millstream.processes.one_broker import take_over
        from millstream.testing_broker.server import BrokerUnderTest

        await take_over(options)
        return BrokerUnderTest(options, self._clock)

    async def _start_registry(self, stack: AsyncExitStack) -> Address:
        from millstream.registry.activation import RegistryActivation, bind  # as above

        assert self.places.registry is not None
        listener = bind(*self.places.registry, is_required=True)
        activation = RegistryActivation(listener, broker=self.server.address, log_level="warning")
        return Address(*(await stack.enter_async_context(activation)).address)


async def _later(call: Callable[[], None]) -> None:
    call()


def _texts(options: Mapping[str, OptionText] | None) -> dict[str, str]:
    return {name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in (options or {}).items()}
