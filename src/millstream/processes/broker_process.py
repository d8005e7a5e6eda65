"""One of the brokers, as the parent sees it: started, asked for samples, started again when it ends, stopped.

A child that ends by itself, killed or failed, is started again, at once for the first time and after a growing pause when it lives only
shortly. Before that its session is ended (`on_end`): the parent keeps the znodes and need not wait for a timeout. A child that cannot
start for the first time is an error of the whole start.

A child that is there and does nothing, stopped by a signal or stuck, keeps its share of the connections to the bootstrap port. It is asked
for a sign of life every few seconds; one that gives none for long is killed, as if it had ended by itself: nothing acknowledged is lost by
that, and its session has ended long before.
"""

import asyncio
import logging
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Callable
from typing import Any, Final

from millstream.address import Address
from millstream.broker.metrics.sample import BROKER, PART_SIZE, decode_part
from millstream.errors import StartupError
from millstream.processes.pipe import ALIVE, FAILED, READY, SAMPLE_WANTED, SETTLED, SIGN_WANTED, Order

logger = logging.getLogger(__name__)

PROGRAM: Final = ("-P", "-m", "millstream.processes.child")
FIRST_PAUSE_S: Final = 0.1
LONGEST_PAUSE_S: Final = 30.0
LONG_LIFE_S: Final = 60.0
STOP_S: Final = 60.0
"""How long a child may take to flush its logs; then it is killed, and they are recovered at the next start."""
SAMPLE_S: Final = 10.0
"""How long a sample may take: a broker that does not answer is shown as down, and the samples of the others wait no longer for it."""

SIGN_S: Final = 2.0
STEPS_TO_WARNING: Final = 5
STEPS_TO_KILL: Final = 30
"""So often in a row there may be no sign of life. Counted, not measured: when the parent was stopped too, that time does not count."""


class BrokerProcess:
    """Runs one child: `start`, and `stop`."""

    def __init__(self, order: Order, *, lock: int, on_end: Callable[[int], None]) -> None:
        """`lock` is a descriptor that the child inherits: what it locks is in use as long as the child is there."""
        self.node_id = order.options.node_id
        self.address = Address(order.options.listen_host, order.options.listen_port)
        self.process: Process | None = None
        self._order = order
        self._lock = lock
        self._on_end = on_end
        self._ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._is_up = False
        self._is_heard = True
        """Whether the child has said anything since it was asked for a sign of life."""
        self._settled = asyncio.Event()
        self._stopping = asyncio.Event()
        self._sample: asyncio.Future[list[bytes]] | None = None
        """The sample that the child was asked for, until all of it is here; empty if the child ends before."""
        self._parts: list[bytes] = []
        """What has come of it."""
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Run the child from now on."""
        self._task = asyncio.create_task(self._run())

    async def ready(self) -> None:
        """Wait until the child serves clients for the first time; StartupError if it cannot."""
        await asyncio.shield(self._ready)

    async def settled(self) -> None:
        """Wait until clients learn of all brokers from this one, and of what they lead."""
        await self._settled.wait()

    async def stop(self) -> None:
        """Ask the child to end, and wait for it."""
        self._stopping.set()
        if self._task is None:
            return
        if self.process is None or self.process.returncode is not None:
            self._task.cancel()
        else:
            self.process.terminate()
        await asyncio.wait({self._task}, timeout=STOP_S)
        if not self._task.done() and self.process is not None and self.process.returncode is None:
            logger.error("broker %d did not stop within %g s and is killed: its logs are recovered at the next start", self.node_id, STOP_S)
            self.process.kill()
        await asyncio.gather(self._task, return_exceptions=True)

    async def sample(self) -> list[bytes]:
        """The parts of a sample of this broker; none if it is down or does not answer."""
        process = self.process
        # One that did not come in time has to come before another is asked for: parts do not say which sample they are of.
        if not self._is_up or process is None or process.stdin is None or self._sample is not None:
            return []
        sample = self._sample = asyncio.get_running_loop().create_future()
        process.stdin.write(SAMPLE_WANTED)
        done, _ = await asyncio.wait({sample}, timeout=SAMPLE_S)
        return sample.result() if done else []

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        pause_s = FIRST_PAUSE_S
        while not self._stopping.is_set():
            started = loop.time()
            code, failure = await self._run_once()
            self._on_end(self.node_id)
            if not self._ready.done():
                reason = failure or f"it ended with {code} before it was ready"
                self._ready.set_exception(StartupError(reason if failure else f"broker {self.node_id} cannot be started: {reason}"))
                self._ready.exception()  # marked as retrieved: it is raised where the start waits, if it still does
                return
            if self._stopping.is_set():
                return
            pause_s = FIRST_PAUSE_S if loop.time() - started > LONG_LIFE_S else min(pause_s * 2, LONGEST_PAUSE_S)
            ending = f"failed ({failure})" if failure else f"ended with {code}"
            logger.error("broker %d %s; it is started again in %g s", self.node_id, ending, pause_s)
            await asyncio.sleep(pause_s)

    async def _run_once(self) -> tuple[int, str]:
        """One life of the child: its exit code, and what it said about its end."""
        try:
            self.process = process = await asyncio.create_subprocess_exec(
                sys.executable,
                *PROGRAM,
                stdin=PIPE,
                stdout=PIPE,
                stderr=DEVNULL if sys.stderr is None else None,  # closed: its number may be that of one of our files
                pass_fds=[self._lock],
                process_group=0,  # Ctrl-C in a terminal is for the parent
            )
        except (OSError, RuntimeError) as error:  # no descriptors, no memory; no thread that waits for its end
            return -1, f"its process cannot be started: {getattr(error, 'strerror', None) or error}"
        assert process.stdin is not None
        assert process.stdout is not None
        if self._stopping.is_set():
            process.terminate()
        failure = ""
        watch = asyncio.create_task(self._watch(process))
        try:
            process.stdin.write(self._order.encode())
            while (message := await _read_message(process.stdout)) is not None:
                kind, rows, frame = message
                if kind == FAILED:
                    failure = rows[0]
                else:
                    self._take(kind, frame)
            return await process.wait(), failure
        except (BrokenPipeError, ConnectionResetError):
            return await process.wait(), failure
        finally:
            watch.cancel()
            self._is_up = False
            self._parts = []
            self._finish_sample()
            if process.returncode is None:
                process.kill()  # only when this task is cancelled: no other code watches the child

    async def _watch(self, process: Process) -> None:
        """Kill the child if it gives no sign of life for long, from the time on at which it serves clients."""
        self._is_heard, silent_steps = True, 0
        while not self._stopping.is_set():
            await asyncio.sleep(SIGN_S)
            if not self._is_up:
                continue
            if self._is_heard:
                if silent_steps >= STEPS_TO_WARNING:
                    logger.warning("broker %d answers again", self.node_id)
                self._is_heard, silent_steps = False, 0
                assert process.stdin is not None
                process.stdin.write(SIGN_WANTED)
                continue
            silent_steps += 1
            if silent_steps == STEPS_TO_WARNING:
                silent_s, last_s = STEPS_TO_WARNING * SIGN_S, STEPS_TO_KILL * SIGN_S
                question = f"is it stopped by a signal, or its disk stuck? After {last_s:g} s it is killed and started again"
                logger.error("broker %d does not answer for %g s: %s", self.node_id, silent_s, question)
            elif silent_steps == STEPS_TO_KILL and not self._stopping.is_set():
                logger.error("broker %d did not answer for %g s and is killed", self.node_id, STEPS_TO_KILL * SIGN_S)
                process.kill()
                return

    def _take(self, kind: str, frame: bytes) -> None:
        self._is_heard = True
        if kind == READY:
            self._is_up = True
            if not self._ready.done():
                self._ready.set_result(None)
        elif kind == SETTLED:
            self._settled.set()
        elif kind != ALIVE:
            self._take_part(kind, frame)

    def _take_part(self, kind: str, frame: bytes) -> None:
        self._parts.append(frame)
        if kind == BROKER:
            self._finish_sample()

    def _finish_sample(self) -> None:
        sample, parts = self._sample, self._parts
        self._sample, self._parts = None, []
        if sample is not None:
            sample.set_result(parts)


async def _read_message(stream: asyncio.StreamReader) -> tuple[str, list[Any], bytes] | None:
    try:
        head = await stream.readexactly(PART_SIZE.size)
        data = await stream.readexactly(PART_SIZE.unpack(head)[0])
    except asyncio.IncompleteReadError:
        return None
    return *decode_part(data), head + data
