"""What a server process writes to stderr: one line per event, as text or as JSON, at a level for everything and others for some areas.

    info                      the level of everything
    warning,groups=debug      only warnings, but all that there is to say of groups
    millstream.log=debug      the loggers of one package, by its name

Processes beside a broker are given the same words on their command lines, so that all lines look alike.
"""

import json
import logging
import sys
import time
from collections.abc import Mapping
from typing import Final, NamedTuple, Self

from millstream.errors import UsageError

LOG_LEVELS: Final = ("debug", "info", "warning", "error")
LOG_FORMATS: Final = ("text", "json")
AREAS: Final[Mapping[str, tuple[str, ...]]] = {
    "audit": ("millstream.audit", "millstream.audited", "millstream.auditor"),
    "cluster": ("millstream.broker.cluster", "millstream.cluster", "millstream.coordination", "millstream.zookeeper"),
    "groups": ("millstream.broker.coordinators", "millstream.groups"),
    "transactions": ("millstream.broker.transactions", "millstream.transactions"),
    "metrics": ("millstream.broker.metrics", "millstream.monitoring"),
    "network": ("millstream.broker.network",),
    "registry": ("millstream.registry",),
    "replication": ("millstream.broker.replication",),
    "requests": ("millstream.broker.handlers", "millstream.broker.network.request_times"),
    "storage": ("millstream.broker.storage", "millstream.log"),
}
"""What people call the parts of a broker, and the loggers of each."""


class LogLevels(NamedTuple):
    """A level for everything, and those of some loggers."""

    level: str = "info"
    loggers: Mapping[str, str] = {}

    @classmethod
    def parse(cls, text: str, source: str = "--log-level") -> Self:
        """The levels that a text as above says; a later word wins over an earlier one."""
        level = "info"
        loggers: dict[str, str] = {}
        for word in text.split(","):
            area, has_area, wanted = word.strip().rpartition("=")
            if wanted not in LOG_LEVELS:
                raise UsageError(f"{source} got {word!r}: a level is one of {', '.join(LOG_LEVELS)}.")
            if not has_area:
                level = wanted
            elif area in AREAS or "." in area:
                loggers |= dict.fromkeys(AREAS.get(area, (area,)), wanted)
            else:
                raise UsageError(f"{source} got {word!r}: an area is one of {', '.join(AREAS)}, or the name of a logger.")
        return cls(level, loggers)


class OneLine(logging.Formatter):
    """One line per event, whatever the message or a traceback contains, so that lines can be counted and searched."""

    def format(self, record: logging.LogRecord) -> str:
        return super().format(record).replace("\n", " | ")


class JsonLine(logging.Formatter):
    """An object per event, with the time in UTC; `source`: which of several processes that write to one place."""

    def __init__(self, source: str = "") -> None:
        super().__init__()
        self._source = {"source": source} if source else {}

    def format(self, record: logging.LogRecord) -> str:
        seconds = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        fields = {
            "time": f"{seconds}.{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "area": area_of(record.name),
            "logger": record.name,
            "message": record.getMessage(),
            **self._source,
        }
        if record.exc_info:
            fields["exception"] = self.formatException(record.exc_info)
        return json.dumps(fields, ensure_ascii=False)


def area_of(logger: str) -> str:
    """The area that a logger belongs to, by the longest name that fits; empty for libraries."""
    fitting = [(len(name), area) for area, names in AREAS.items() for name in names if f"{logger}.".startswith(f"{name}.")]
    return max(fitting, default=(0, ""))[1]


def log_to_stderr(levels: str, form: str = "text", *, source: str = "") -> None:
    """Send everything of at least these levels (`LogLevels`) to stderr; `source` names the process, where several write to one."""
    handler = logging.StreamHandler(sys.stderr)
    name = f"[{source}] %(name)s" if source else "%(name)s"
    handler.setFormatter(JsonLine(source) if form == "json" else OneLine(f"%(asctime)s %(levelname)s {name}: %(message)s"))
    parsed = LogLevels.parse(levels)
    logging.basicConfig(level=parsed.level.upper(), handlers=[handler])
    for name, level in parsed.loggers.items():
        logging.getLogger(name).setLevel(level.upper())
