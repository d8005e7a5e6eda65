"""One of several brokers of a machine: `python -m millstream.processes.child`, started by `broker_process` and by nothing else.

It is a broker like any other, in the cluster whose znodes the parent keeps. It stops when it is asked to (SIGTERM), and when the parent is
gone, however that ended: without the znodes it could not go on for long. Ctrl-C in a terminal goes to all of them; the parent decides.
"""

import asyncio
import gc
import os
import signal
import sys
import threading
from asyncio.streams import FlowControlMixin, StreamWriter
from typing import Final

from millstream.broker.garbage import collect_garbage_seldom
from millstream.broker.metrics.sample import encode_part
from millstream.broker.network.event_loop import BrokerLoop
from millstream.broker.server import BrokerServer
from millstream.errors import MillstreamError
from millstream.log_lines import log_to_stderr
from millstream.processes.pipe import ALIVE, FAILED, READY, SAMPLE_WANTED, SETTLED, SIGN_WANTED, Order, read_order

EXIT_FAILED: Final = 1
ORPHAN_S: Final = 20.0
"""How long a broker without its parent may take to stop cleanly; its session cannot be closed, because the tree is gone too."""
_COMMANDS: Final = 4096


def main() -> int:
    """Be the broker that is ordered; returns the exit code."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    gc.disable()
    order = read_order(sys.stdin.fileno())
    if order is None:
        return EXIT_FAILED
    # Messages to the parent have the pipe for themselves, whatever a library prints.
    messages = os.dup(sys.stdout.fileno())
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    log_to_stderr(order.log_level, order.log_format, source=f"broker-{order.options.node_id}")
    with asyncio.Runner(loop_factory=BrokerLoop) as runner:
        return runner.run(_Child(order).run(messages))


class _Child:
    """The broker, and what its parent asks of it."""

    def __init__(self, order: Order) -> None:
        self._server = BrokerServer(order.options)
        self._brokers = order.brokers
        self._stop = asyncio.Event()
        self._wanted = asyncio.Event()
        self._starting: asyncio.Task[object] | None = None
        self._messages: StreamWriter | None = None

    async def run(self, descriptor: int) -> int:
        """Start, say so, serve; returns the exit code."""
        loop = asyncio.get_running_loop()
        messages = self._messages = await _writer(descriptor)
        loop.add_signal_handler(signal.SIGTERM, self._end)
        os.set_blocking(sys.stdin.fileno(), False)
        loop.add_reader(sys.stdin.fileno(), self._commanded)
        self._starting = asyncio.current_task()
        try:
            await asyncio.sleep(0)  # the parent may be gone already
            async with self._server:
                self._starting = None
                messages.write(encode_part(READY, list(self._server.address)))
                collect_garbage_seldom()
                await self._serve(messages)
        except MillstreamError as error:
            messages.write(encode_part(FAILED, [str(error)]))
            return EXIT_FAILED
        except asyncio.CancelledError:
            return EXIT_FAILED  # asked to end before it was ready
        finally:
            messages.close()
        return 0

    async def _serve(self, messages: StreamWriter) -> None:
        tasks = [asyncio.create_task(work) for work in (self._stop.wait(), self._server.stopped(), self._send_samples(messages))]
        settling = asyncio.create_task(self._settle(messages))
        done, others = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in (*others, settling):
            task.cancel()
        for task in done:
            task.result()

    async def _settle(self, messages: StreamWriter) -> None:
        await self._server.brokers_are_known(self._brokers)
        messages.write(encode_part(SETTLED, []))

    async def _send_samples(self, messages: StreamWriter) -> None:
        while True:
            await self._wanted.wait()
            self._wanted.clear()
            async for part in self._server.sample():
                messages.write(part)
                await messages.drain()

    def _commanded(self) -> None:
        commands = os.read(sys.stdin.fileno(), _COMMANDS)
        if SAMPLE_WANTED in commands:
            self._wanted.set()
        if SIGN_WANTED in commands and self._messages is not None and not self._messages.is_closing():
            self._messages.write(encode_part(ALIVE, []))
        if commands:
            return
        asyncio.get_running_loop().remove_reader(sys.stdin.fileno())
        watchdog = threading.Timer(ORPHAN_S, os._exit, [EXIT_FAILED])
        watchdog.daemon = True
        watchdog.start()
        self._end()

    def _end(self) -> None:
        """Stop cleanly; a start that is under way is given up."""
        self._stop.set()
        starting, self._starting = self._starting, None
        if starting is not None:
            starting.cancel()


async def _writer(descriptor: int) -> StreamWriter:
    loop = asyncio.get_running_loop()
    transport, protocol = await loop.connect_write_pipe(FlowControlMixin, os.fdopen(descriptor, "wb"))
    return StreamWriter(transport, protocol, None, loop)


if __name__ == "__main__":
    sys.exit(main())
