"""All brokers of one machine: the parent of their processes, which keeps the znodes of their cluster and serves no client itself.

Start: lock the data directories, open the tree, take the ports, give each partition to one of the processes if there were others before
(`layout_change`), let the children join the cluster in the tree; ready when all of them are, and know it of each other.
Stop: the children all at once, then the tree. When this process is killed, the children notice and stop (`child`).

It has the face of a `BrokerServer`: where clients connect, when a topic exists, what is published of it, when it cannot go on.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, suppress
from typing import Final, Self

from millstream.address import Address
from millstream.broker.cluster.coordination_tree import serve_tree
from millstream.broker.metrics.sample import END, encode_part
from millstream.broker.network.descriptors import MOST_COORDINATION_CLIENTS, raise_descriptor_limit
from millstream.broker.server_options import ServerOptions
from millstream.clock import Clock, SystemClock
from millstream.coordination import paths
from millstream.coordination.interface import SessionState
from millstream.errors import StorageError, UsageError
from millstream.files import Files
from millstream.processes.broker_process import BrokerProcess
from millstream.processes.layout import Layout
from millstream.processes.machine_data import MachineData
from millstream.processes.pipe import Order
from millstream.processes.ports import LARGEST_PORT, Ports
from millstream.zookeeper.errors import ZooKeeperError

MOST_PROCESSES: Final = 64
DEFAULTS: Final = {
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    # They stop together: there is no other broker to hand over to.
    "controlled.shutdown.enable": "false",
}
"""What is another default for brokers that share a machine: copies there are on the same disks, and stop with it."""
SETTLE_S: Final = 5.0
"""How long brokers that are ready may take to learn of each other before clients are told that they are."""
OWN_DESCRIPTORS: Final = 64
"""Of the parent, besides those for its children: journals, locks, what is opened for a moment to start a child."""
DESCRIPTORS_OF_A_CHILD: Final = 4
"""In the parent: two pipes, the port that is held, and the child's connection to the tree."""


class BrokerProcesses:
    """`async with BrokerProcesses(options, 4) as brokers`."""

    def __init__(
        self,
        options: ServerOptions,
        processes: int,
        *,
        log_level: str = "info",
        log_format: str = "text",
        clock: Clock | None = None,
        files: Files | None = None,
    ) -> None:
        check_processes(processes)
        if options.advertise is not None and options.advertise[1] + processes > LARGEST_PORT:
            raise UsageError(
                f"--advertise {Address(*options.advertise)} leaves no ports for {processes} brokers: ports end with {LARGEST_PORT}."
            )
        self.address: tuple[str, int] = (options.listen_host, options.listen_port)
        self.coordination_address: tuple[str, int] = (options.coordination_host, options.coordination_port)
        self.brokers: list[BrokerProcess] = []
        self._options = options
        self._layout = Layout.of_processes(processes)
        self._log = (log_level, log_format)
        self._clock = clock or SystemClock()
        self._files = files or Files()
        self._failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._exit = AsyncExitStack()

    async def __aenter__(self) -> Self:
        async with self._exit:
            await self._start()
            self._exit = self._exit.pop_all()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._exit.aclose()

    @property
    def own_addresses(self) -> list[Address]:
        """Where each of the brokers listens, in the order of their numbers, besides the address of all."""
        return [broker.address for broker in self.brokers]

    async def stopped(self) -> None:
        """Wait until the brokers cannot go on; raises why."""
        await self._failed

    async def topic_exists(self, name: str) -> None:
        """Wait until there is a topic of this name."""
        changed = asyncio.Event()
        while await self._tree.exists(paths.topic(name), watch=lambda _event: changed.set()) is None:
            await changed.wait()
            changed.clear()

    async def sample(self) -> AsyncIterator[bytes]:
        """All that is published about the brokers, as it is now, in parts: those of one broker after those of another."""
        for parts in await asyncio.gather(*(broker.sample() for broker in self.brokers)):
            for part in parts:
                yield part
        yield encode_part(END, [broker.node_id for broker in self.brokers])

    async def _start(self) -> None:
        options, at_stop = self._options, self._exit
        limit = raise_descriptor_limit()
        data = MachineData(options.data, clock=self._clock, files=self._files, forgotten=options.forget_directories)
        self._tree = await at_stop.enter_async_context(data.opened())
        # Now the brokers of an earlier start are gone that listened there, and nothing is changed yet.
        is_advertised = options.advertise is not None
        ports = Ports.take(options.listen_host, options.listen_port, processes=self._layout.processes, is_next_required=is_advertised)
        at_stop.callback(ports.close)
        await data.arrange(self._layout)
        self._tree.add_session_listener(self._session_changed)
        clients = coordination_clients(limit, processes=self._layout.processes)
        server, port = await serve_tree(self._tree, options, max_connections=clients)
        at_stop.push_async_callback(server.close)
        self.address, self.coordination_address = ports.bootstrap, Address(options.coordination_host, port)
        self.brokers = [self._broker(number, ports, lock=data.children_lock) for number in self._layout.homes]
        at_stop.push_async_callback(self._stop_brokers)
        for broker in self.brokers:
            broker.start()
        await self._until_ready()
        with suppress(TimeoutError):  # one of them ended meanwhile: it is started again, and clients try again
            async with asyncio.timeout(SETTLE_S):
                await asyncio.gather(*(broker.settled() for broker in self.brokers))

    def _broker(self, number: int, ports: Ports, *, lock: int) -> BrokerProcess:
        options = self._options
        own = ports.own[number - 1]
        advertise = options.advertise and (options.advertise[0], options.advertise[1] + number)
        child = options._replace(
            listen_host=own.host,
            listen_port=own.port,
            bootstrap=ports.bootstrap,
            advertise=advertise,
            zookeeper=str(Address(*self.coordination_address).on_this_machine),
            data=self._layout.paths(options.data, number),
            node_id=number,
            options=DEFAULTS | dict(options.options),
        )
        return BrokerProcess(Order(child, *self._log, brokers=self._layout.processes), lock=lock, on_end=self._end_session)

    async def _until_ready(self) -> None:
        """Raises what keeps one of them from starting, and a failure of the tree meanwhile."""
        waiting = {asyncio.ensure_future(broker.ready()) for broker in self.brokers}
        try:
            while waiting:
                done, _ = await asyncio.wait({*waiting, self._failed}, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    task.result()
                waiting -= done
        finally:
            for task in waiting:
                task.cancel()

    async def _stop_brokers(self) -> None:
        await asyncio.gather(*(broker.stop() for broker in self.brokers))

    def _end_session(self, node_id: int) -> None:
        """The process of this broker is gone: so are its registration, and its place as controller."""
        keeper = self._tree.keeper
        registration = keeper.tree.nodes.get(paths.broker(node_id))
        if registration is not None:
            with suppress(ZooKeeperError):
                keeper.close_session(registration.owner)

    def _session_changed(self, state: SessionState) -> None:
        if state is SessionState.LOST and not self._failed.done():
            self._failed.set_exception(StorageError("the coordination tree failed, and the brokers cannot go on without it"))


def coordination_clients(limit: int, *, processes: int) -> int:
    """How many clients the tree may have, the brokers among them: others must not take the descriptors that start a broker again."""
    left = limit - OWN_DESCRIPTORS - processes * DESCRIPTORS_OF_A_CHILD
    return processes + max(4, min(MOST_COORDINATION_CLIENTS, left // 2))


def check_processes(processes: int) -> int:
    """The number; UsageError if so many brokers cannot be run."""
    if not 1 <= processes <= MOST_PROCESSES:
        raise UsageError(f"--processes takes a number from 0 (as many as cores) to {MOST_PROCESSES}, and got {processes}.")
    return processes
