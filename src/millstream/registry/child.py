"""A process beside a broker's, from both ends: the broker's ends it, and it ends with the broker's, however that ends.

Its standard input is a pipe that the broker's process holds open and never writes to.
"""

import asyncio
import os
import sys
from asyncio.subprocess import Process
from typing import Final

STOP_SECONDS: Final = 10.0


async def end_process(process: Process) -> None:
    """Ask the child to end, and end it if it does not."""
    if process.returncode is None:
        process.terminate()
    try:
        async with asyncio.timeout(STOP_SECONDS):
            await process.wait()
    except TimeoutError:
        process.kill()
        await process.wait()


def end_with_parent() -> None:
    """Wait until the parent has ended, then end at once: for a thread of the child."""
    while os.read(sys.stdin.fileno(), 1):
        pass
    os._exit(0)
