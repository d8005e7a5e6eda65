"""The process that publishes a broker's metrics: `python -m millstream.monitoring.process`, started by `activation` with its socket.

The broker writes samples to its standard input; when that ends, so does this process, however the broker ended. Ctrl-C in a terminal goes
to both; the broker decides when this one ends.
"""

import argparse
import gc
import logging
import os
import signal
import socket
import sys
import threading
from importlib.metadata import version
from typing import Final

from millstream.broker.metrics.sample import read_sample
from millstream.log_lines import log_to_stderr
from millstream.monitoring.cluster_reader import ClusterReader
from millstream.monitoring.lag import Lags
from millstream.monitoring.newest import Newest
from millstream.monitoring.publisher import Arrived, Publisher
from millstream.monitoring.several import Several
from millstream.monitoring.web import MetricsServer

logger = logging.getLogger(__name__)

TUPLES_BEFORE_A_COLLECTION: Final = 200_000
"""A sample is some 10 000 tuples and none of them in a circle: looking for circles in them every 700 doubled what a page costs."""


def main() -> int:
    """Publish samples until there are no more; returns the exit code."""
    gc.set_threshold(TUPLES_BEFORE_A_COLLECTION)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    flags = _flags()
    log_to_stderr(flags.log_level, flags.log_format)
    publisher = Publisher(Lags(ClusterReader(flags.brokers)), interval_s=flags.interval, version=version("millstream"))
    listener = socket.socket(fileno=flags.socket)
    listener.setblocking(True)
    server = MetricsServer(listener, publisher)
    threading.Thread(target=server.serve_forever, name="http", daemon=True).start()
    arrivals: Newest[Arrived] = Newest()
    threading.Thread(target=_show_all, args=(publisher, arrivals), name="lags", daemon=True).start()
    read = Several().read if flags.several else read_sample
    while (sample := read(sys.stdin.buffer)) is not None:
        arrivals.put(publisher.note(sample))
    return 0


def _show_all(publisher: Publisher, arrivals: Newest[Arrived]) -> None:
    try:
        while True:
            publisher.show(arrivals.take())
    except BaseException:
        # A mistake of ours: rather a process that is started anew than pages that stand still.
        logger.exception("what the broker says of itself cannot be shown")
        os._exit(1)


def _flags() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--brokers", required=True)
    parser.add_argument("--socket", type=int, required=True)
    parser.add_argument("--interval", type=float, required=True)
    parser.add_argument("--several", action="store_true")
    parser.add_argument("--log-level", default="info")
    parser.add_argument("--log-format", default="text")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
