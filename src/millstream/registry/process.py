"""The process of a registry beside a broker: `python -m millstream.registry.process`, started by `activation` with the listening socket.

It must not outlive its broker: its standard input is a pipe that the broker's process holds open and never writes to, and a thread waits
for its end, which also comes when that process is killed. Ctrl-C in a terminal goes to both; the broker decides when its registry ends.
"""

import argparse
import asyncio
import gc
import signal
import socket
import sys
import threading

from millstream.errors import MillstreamError
from millstream.log_lines import log_to_stderr
from millstream.registry.child import end_with_parent
from millstream.registry.extra import INSTALL


def main() -> int:
    """Serve until stopped; returns the exit code."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=end_with_parent, name="parent", daemon=True).start()
    flags = _flags()
    log_to_stderr(flags.log_level, flags.log_format)
    try:
        # What the registry needs may be installed in part: `missing_packages` knows only what it imports itself.
        from millstream.registry.server import RegistryOptions, serve

        options = RegistryOptions(client_options={"bootstrap.servers": flags.brokers}, url=flags.url)
        with socket.socket(fileno=flags.socket) as listener:
            listener.setblocking(False)
            asyncio.run(serve(options, listener, on_ready=gc.freeze))
    except MillstreamError as error:
        print(f"millstream registry: {error}", file=sys.stderr)  # noqa: T201 -- the process ends with this sentence
        return 1
    except ModuleNotFoundError as error:
        print(f"millstream registry: {error.name} is not installed: {INSTALL}", file=sys.stderr)  # noqa: T201 -- as above
        return 1
    return 0


def _flags() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--brokers", required=True)
    parser.add_argument("--socket", type=int, required=True)
    parser.add_argument("--url", required=True)
    parser.add_argument("--log-level", default="info")
    parser.add_argument("--log-format", default="text")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
