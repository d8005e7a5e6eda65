"""What can be chosen about a consumer, checked once, with the reasons for the defaults."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, get_args

from millstream.errors import UsageError

Start = Literal["earliest", "latest"]
Expired = Literal["earliest", "latest", "error"]
Isolation = Literal["read_committed", "read_uncommitted"]
Setting = str | int | float | bool

_SHORTEST_SESSION_S: Final = 0.3


@dataclass(frozen=True, kw_only=True)
class ConsumerSettings:
    """How a consumer behaves; `Consumer` takes each of these by keyword."""

    start: Start = "earliest"
    """Where a group begins that has no offset stored: at the oldest message there is, or after the newest."""
    expired: Expired = "earliest"
    """What to do when the next message to read is not there any more: go to either end, or raise `OffsetExpired`."""
    auto_commit_interval_s: float | None = 1.0
    """How often offsets are stored, besides when partitions are given up. None: only by `commit()`. A crash repeats what was handled
    since."""
    session_timeout_s: float = 6.0
    """How long a consumer may be silent before its partitions go to others."""
    connect_timeout_s: float = 10.0
    """How long to look for ZooKeeper at the start."""
    handover_timeout_s: float = 10.0
    """How long a partition that goes to another consumer waits for the message in hand; after that the message is repeated there."""
    isolation: Isolation = "read_committed"
    """`read_committed` leaves out messages of aborted transactions, and waits for the end of open ones."""
    options: Mapping[str, Setting] = field(default_factory=dict)
    """Settings of librdkafka for pulling, by their own names."""

    def __post_init__(self) -> None:
        _check_choice("start", self.start, get_args(Start))
        _check_choice("expired", self.expired, get_args(Expired))
        check_isolation(self.isolation)
        _check_positive("auto_commit_interval_s", self.auto_commit_interval_s, may_be_none=True)
        for name in ("connect_timeout_s", "handover_timeout_s"):
            _check_positive(name, getattr(self, name))
        if self.session_timeout_s < _SHORTEST_SESSION_S:
            raise UsageError(f"session_timeout_s={self.session_timeout_s}: give at least {_SHORTEST_SESSION_S} seconds")


def check_isolation(isolation: Isolation) -> None:
    """Whether it is one of the two levels."""
    _check_choice("isolation", isolation, get_args(Isolation))


def _check_choice(name: str, value: str, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise UsageError(f"{name}={value!r}: choose one of {', '.join(map(repr, choices))}")


def _check_positive(name: str, value: float | None, *, may_be_none: bool = False) -> None:
    if value is None and may_be_none:
        return
    if not isinstance(value, int | float) or value <= 0:
        raise UsageError(f"{name}={value!r}: give a number of seconds above 0")
