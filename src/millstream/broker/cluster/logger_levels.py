"""The levels of this process's loggers as options of a broker (KIP-412): changed while it runs, forgotten when it ends, as in Kafka.

Kafka's names for levels; FATAL is Python's CRITICAL, WARN its WARNING, and TRACE, which Python has not, lies below DEBUG.
"""

import logging
from collections.abc import Callable, Collection, Mapping, Sequence

from millstream.coordination.cluster_view import ClusterView
from millstream.errors import InvalidConfig, InvalidRequest
from millstream.options.alteration import Alteration, AlterOperation
from millstream.options.description import DescribedOption
from millstream.options.option import OptionType
from millstream.options.settings import ConfigSource

ROOT = "root"
TRACE = 5
LEVELS = {
    "FATAL": logging.CRITICAL,
    "ERROR": logging.ERROR,
    "WARN": logging.WARNING,
    "INFO": logging.INFO,
    "DEBUG": logging.DEBUG,
    "TRACE": TRACE,
}
"""The strongest first."""


class LoggerLevels:
    """The loggers of this broker."""

    needs_controller = False

    def __init__(self, view: Callable[[], ClusterView], *, node_id: int) -> None:
        self._view = view
        self._node_id = node_id

    def names(self) -> list[str]:
        """Every broker has loggers."""
        return [str(node_id) for node_id in self._view().brokers]

    def describe(self, name: str, options: Collection[str] | None) -> list[DescribedOption]:
        """The level that holds for each logger, set on it or inherited."""
        self.check_asked_here(name)
        # Only of those that are asked for: a request may name the broker thousands of times, each time with another logger.
        names = dict.fromkeys(name for name in options if _exists(name)) if options else (ROOT, *sorted(_names()))
        return [_row(logger, _word(_logger(logger).getEffectiveLevel())) for logger in names]

    async def replace(self, name: str, values: Mapping[str, str], *, validate_only: bool) -> None:
        """Not possible, as in Kafka: it would reset the levels of all other loggers."""
        del name, values, validate_only
        raise InvalidRequest("levels of loggers (resource type 8) are changed with IncrementalAlterConfigs")

    async def increment(self, name: str, alterations: Sequence[Alteration], *, validate_only: bool) -> None:
        """Set levels, or give back to a logger (DELETE) the level of the one above it; all of them or none."""
        self.check_asked_here(name)
        levels = {alteration.name: _new_level(alteration) for alteration in alterations}
        if len(levels) < len(alterations):
            raise InvalidRequest("the level of a logger is changed twice in one request")
        if not validate_only:
            for logger, level in levels.items():
                _logger(logger).setLevel(level)

    def check_asked_here(self, name: str) -> None:
        """Raise unless this is the broker of that number."""
        if name != str(self._node_id):
            raise InvalidRequest(f"this is broker {self._node_id}; ask broker {name!r} itself for its loggers")


def _new_level(alteration: Alteration) -> int:
    name, operation, value = alteration
    if operation not in (AlterOperation.SET, AlterOperation.DELETE):
        raise InvalidRequest(f"the level of logger {name} can be set (SET) or given back (DELETE), nothing else")
    if not _exists(name):
        raise InvalidConfig(f"logger {name} does not exist")
    if operation == AlterOperation.DELETE:
        if name == ROOT:
            raise InvalidRequest("the root logger has no logger above it: set its level instead of removing it")
        return logging.NOTSET
    level = LEVELS.get(value or "")
    if level is None:
        raise InvalidConfig(f"{value!r} is no level of a logger: it takes one of {', '.join(LEVELS)}")
    return level


def _names() -> list[str]:
    """All loggers but the root."""
    # A copy first: a thread may ask for a new logger meanwhile.
    return [name for name in list(logging.root.manager.loggerDict) if _exists(name)]


def _exists(name: str) -> bool:
    """Whether it is a logger, and not only a part of the name of one."""
    return name == ROOT or isinstance(logging.root.manager.loggerDict.get(name), logging.Logger)


def _logger(name: str) -> logging.Logger:
    return logging.getLogger(None if name == ROOT else name)


def _word(level: int) -> str:
    return next((word for word, number in LEVELS.items() if level >= number), "TRACE")


def _row(logger: str, level: str) -> DescribedOption:
    return DescribedOption(
        name=logger,
        value=level,
        source=ConfigSource.DYNAMIC_BROKER_LOGGER,
        synonyms=(),
        type=OptionType.UNKNOWN,
        documentation="",
        is_read_only=False,
        is_sensitive=False,
    )
