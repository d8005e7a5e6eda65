"""The process of an auditor beside a broker: `python -m millstream.auditor.process`, started by `activation`, which it does not outlive.

Ctrl-C in a terminal goes to both; the broker decides when its auditor ends.
"""

import argparse
import signal
import sys
import threading

from millstream.auditor.alarm_sinks import AlarmSinks
from millstream.auditor.auditor import Auditor
from millstream.auditor.settings import AuditorSettings
from millstream.errors import MillstreamError
from millstream.log_lines import log_to_stderr
from millstream.registry.child import end_with_parent


def main() -> int:
    """Audit until stopped; returns the exit code."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=end_with_parent, name="parent", daemon=True).start()
    flags = _flags()
    log_to_stderr(flags.log_level, flags.log_format)
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    settings = AuditorSettings(client_options={"bootstrap.servers": flags.brokers}, registry=flags.registry)
    try:
        Auditor([settings], alarms=AlarmSinks()).run(stop)
    except MillstreamError as error:
        print(f"millstream audit: {error}", file=sys.stderr)  # noqa: T201 -- the process ends with this sentence
        return 1
    return 0


def _flags() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--brokers", required=True)
    parser.add_argument("--registry")
    parser.add_argument("--log-level", default="info")
    parser.add_argument("--log-format", default="text")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
