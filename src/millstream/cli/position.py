"""A position in a topic as people write it, the same in every command, and the offset that it means in each partition.

    earliest, latest   the first offset there is, the next one to be written
    N                  offset N
    -N                 the last N offsets of each partition
    -24h               the first record of the last 24 hours; also s, m, d, w
    @TIME              the first record at or after TIME: a date (2026-11-14, 2026-11-14T08:00+01:00), milliseconds since 1970, or one of
                       the words now, today, yesterday (midnight)

Times are UTC unless they name another zone, as all times are that the commands print. An offset outside of the partition means the nearest
one inside.
"""

import re
import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import Enum
from typing import Final, NamedTuple

from millstream.errors import UsageError

FORMS: Final = "earliest, latest, an offset, -N (the last N), -24h (s, m, h, d, w), @2026-11-14T08:00+01:00, @yesterday, @today or @now"
HELP: Final = "earliest, latest, N, -N (the last N), -24h (s, m, h, d, w ago), @2026-11-14T08:00+01:00, @yesterday, @today. Times are UTC."
"""For the help of options and arguments."""

_AGO: Final = re.compile(r"-(\d{1,9})([smhdw])", re.ASCII)
_UNITS: Final = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}
_LARGEST: Final = 2**63 - 1


class PositionKind(Enum):
    """What a position is counted from."""

    EARLIEST = "earliest"
    LATEST = "latest"
    OFFSET = "offset"
    LAST = "last"
    TIME = "time"


class OffsetRange(NamedTuple):
    """What a partition held when it was asked: `earliest` is the first offset, `latest` the next one to be written."""

    earliest: int
    latest: int


@dataclass(frozen=True)
class Position:
    """A kind of position and its number: an offset, a count, or milliseconds since 1970."""

    kind: PositionKind
    number: int = 0

    def offset_in(self, partition: OffsetRange) -> int:
        """The offset that this means there, never outside of the partition; times are looked up by the broker, not here."""
        assert self.kind is not PositionKind.TIME
        wanted = {
            PositionKind.EARLIEST: partition.earliest,
            PositionKind.LATEST: partition.latest,
            PositionKind.OFFSET: self.number,
            PositionKind.LAST: partition.latest - self.number,
        }[self.kind]
        return min(max(wanted, partition.earliest), partition.latest)


def parse_position(text: str, flag: str, *, now_ms: int | None = None) -> Position:
    """The position that `text` means, given with `flag`."""
    text = text.strip()
    if text in ("earliest", "latest"):
        return Position(PositionKind(text))
    now = time.time_ns() // 1_000_000 if now_ms is None else now_ms
    if ago := _AGO.fullmatch(text):
        return Position(PositionKind.TIME, max(now - int(ago[1]) * _UNITS[ago[2]] * 1000, 0))
    if text.startswith("@"):
        return Position(PositionKind.TIME, _parse_time(text[1:], flag, now))
    kind, digits = (PositionKind.LAST, text[1:]) if text.startswith("-") else (PositionKind.OFFSET, text)
    if not _is_number(digits):
        raise UsageError(f"{flag} takes {FORMS}, and got {text!r}.")
    return Position(kind, int(digits))


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 19 and int(text) <= _LARGEST


def _parse_time(text: str, flag: str, now_ms: int) -> int:
    if _is_number(text):
        return int(text)
    now = datetime.fromtimestamp(now_ms / 1000, UTC)
    midnight = now.replace(hour=0, minute=0, second=0, microsecond=0)
    words = {"now": now, "today": midnight, "yesterday": midnight - timedelta(days=1)}
    try:
        moment = words[text] if text in words else datetime.fromisoformat(text)
    except ValueError:
        raise UsageError(
            f"{flag} @{text} is no time: give a date as 2026-11-14T08:00+01:00 (UTC if it names no zone), milliseconds since 1970, "
            "or yesterday, today, now."
        ) from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return max(int(moment.timestamp() * 1000), 0)
