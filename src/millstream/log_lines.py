"""What a server process writes to stderr: one line per event."""

import logging
import sys

LOG_LEVELS = ("debug", "info", "warning", "error")


class OneLine(logging.Formatter):
    """One line per event, whatever the message or a traceback contains, so that lines can be counted and searched."""

    def format(self, record: logging.LogRecord) -> str:
        return super().format(record).replace("\n", " | ")


def log_to_stderr(level: str) -> None:
    """Send everything of at least this level to stderr."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(OneLine("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    logging.basicConfig(level=level.upper(), handlers=[handler])
