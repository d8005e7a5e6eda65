"""A broker inside a Python process, for tests: real clients connect to it over TCP as to any other.

    with Broker() as broker:
        producer = confluent_kafka.Producer({"bootstrap.servers": broker.bootstrap_servers})

Each broker has a thread with an event loop of its own, a temporary directory and free ports on the loopback interface, so several can run
beside each other and beside an event loop of the test (`async with` works as well). The data are gone after the stop, unless a directory
was given: then the next broker on that directory has them again. `Broker(registry=True)` has a schema registry beside it, at
`registry_url`; it starts, as a process of its own, with the first request.

Not for production, where `millstream serve` gives the broker a process of its own: here it shares the interpreter with the test.
"""

import asyncio
import tempfile
import threading
from collections.abc import Mapping
from concurrent.futures import Future
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Self

from millstream.address import Address
from millstream.broker.network.event_loop import BrokerLoop
from millstream.broker.server_options import ServerOptions
from millstream.errors import UsageError
from millstream.registry.extra import INSTALL, missing_packages

LOOPBACK = "127.0.0.1"

OptionText = str | int | bool


class Broker:
    """A broker that runs while the `with` block does; options have Kafka's names, as in `Broker({"num.partitions": 3})`."""

    def __init__(
        self,
        options: Mapping[str, OptionText] | None = None,
        *,
        data: Path | None = None,
        port: int = 0,
        node_id: int = 1,
        registry: bool = False,
    ) -> None:
        self._options = {name: _text(value) for name, value in (options or {}).items()}
        self._data = data
        self._port = port
        self._node_id = node_id
        self._has_registry = registry
        self._running: _RunningBroker | None = None
        self._temporary: tempfile.TemporaryDirectory[str] | None = None

    @property
    def bootstrap_servers(self) -> str:
        """Where clients connect: `127.0.0.1:PORT`."""
        return str(self._started().address)

    @property
    def coordination(self) -> str:
        """Where the embedded coordination listens, for a ZooKeeper client: `127.0.0.1:PORT`."""
        return str(self._started().coordination_address)

    @property
    def registry_url(self) -> str:
        """Where the schema registry is: `http://127.0.0.1:PORT`."""
        address = self._started().registry_address
        if address is None:
            raise RuntimeError("The broker has no registry: make it with Broker(registry=True).")
        return f"http://{address}"

    def start(self) -> Self:
        """Start the broker and return when it accepts clients; raises what kept it from starting."""
        assert self._running is None, "the broker is already running"
        if self._has_registry and (missing := missing_packages()):
            raise UsageError(f"A registry needs {' and '.join(missing)}: {INSTALL}")
        if self._data is None:
            self._temporary = tempfile.TemporaryDirectory(prefix="millstream-")
        options = ServerOptions(
            listen_host=LOOPBACK,
            listen_port=self._port,
            coordination_host=LOOPBACK,
            coordination_port=0,
            data=(self._data or Path(self._temporary.name if self._temporary else ""),),
            node_id=self._node_id,
            options=self._options,
        )
        try:
            self._running = _RunningBroker(options, has_registry=self._has_registry)
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

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    async def __aenter__(self) -> Self:
        return await asyncio.to_thread(self.start)

    async def __aexit__(self, *_: object) -> None:
        await asyncio.to_thread(self.stop)

    def _started(self) -> "_RunningBroker":
        if self._running is None:
            raise RuntimeError("The broker is not running: use it inside its `with` block.")
        return self._running

    def _discard_data(self) -> None:
        if self._temporary is not None:
            self._temporary.cleanup()
            self._temporary = None


class _RunningBroker:
    """The thread of a broker; the constructor returns when the broker is ready, `stop` when the thread has ended."""

    def __init__(self, options: ServerOptions, *, has_registry: bool) -> None:
        self._has_registry = has_registry
        self._stop: asyncio.Event | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ready: Future[None] = Future()
        self._ended: Future[None] = Future()
        self.address = self.coordination_address = Address(LOOPBACK, 0)
        self.registry_address: Address | None = None
        # A daemon, so that a test run which forgot to stop its broker still ends.
        self._thread = threading.Thread(target=self._run, args=(options,), name="millstream-broker", daemon=True)
        self._thread.start()
        self._ready.result()

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
        from millstream.broker.server import BrokerServer  # not needed by who only imports this module, for example to annotate a fixture

        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        async with AsyncExitStack() as stack:
            server = await stack.enter_async_context(BrokerServer(options))
            self.address, self.coordination_address = Address(*server.address), Address(*server.coordination_address)
            if self._has_registry:
                from millstream.registry.activation import RegistryActivation, bind  # as above

                listener = bind(LOOPBACK, 0, is_required=True)
                activation = RegistryActivation(listener, broker=server.address, log_level="warning")
                self.registry_address = Address(*(await stack.enter_async_context(activation)).address)
            self._ready.set_result(None)
            asked = asyncio.create_task(self._stop.wait())
            stopped = asyncio.create_task(server.stopped())
            await asyncio.wait({asked, stopped}, return_when=asyncio.FIRST_COMPLETED)
            if stopped.done():
                stopped.result()


def _text(value: OptionText) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
