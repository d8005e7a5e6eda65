"""Run an embedded coordination server as a process of its own: `python -m tests.cluster.embedded_server DIRECTORY PORT`."""

import asyncio
import signal
import sys
from pathlib import Path

from millstream.clock import SystemClock
from millstream.coordination.embedded import EmbeddedCoordination
from millstream.files import Files
from millstream.zookeeper.server import CoordinationServer


async def main(directory: Path, port: int) -> None:
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    coordination = await EmbeddedCoordination.open(directory, files=Files(), clock=SystemClock(), broker_session_name="broker-1")
    server = CoordinationServer(coordination.keeper)
    await server.start("127.0.0.1", port)
    await stop.wait()
    await server.close()
    await coordination.close()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), int(sys.argv[2])))
