"""Where `consume -o` starts reading: the text that a person types, and the offset that it means in each partition.

    beginning, end    the first offset there is, the next one to be written
    N                 offset N
    -N                the last N offsets of each partition
    @TIME             the first record at or after TIME: milliseconds since 1970, or a date (2026-01-31, 2026-01-31T12:00:00+01:00;
                      UTC if it does not say otherwise)

An offset outside of the partition means the nearest one inside.
"""

from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum
from typing import NamedTuple

from millstream.errors import UsageError


class Start(Enum):
    """Kinds of positions."""

    BEGINNING = "beginning"
    END = "end"
    OFFSET = "offset"
    LAST = "last"
    TIME = "time"


class OffsetRange(NamedTuple):
    """What a partition held when it was asked: `earliest` is the first offset, `latest` the next one to be written."""

    earliest: int
    latest: int


@dataclass(frozen=True)
class StartPosition:
    """A kind of position and its number: an offset, a count, or milliseconds since 1970."""

    kind: Start
    number: int = 0

    def offset_in(self, partition: OffsetRange) -> int:
        """The offset that this means there, never outside of the partition; times are looked up by the broker, not here."""
        assert self.kind is not Start.TIME
        wanted = {
            Start.BEGINNING: partition.earliest,
            Start.END: partition.latest,
            Start.OFFSET: self.number,
            Start.LAST: partition.latest - self.number,
        }[self.kind]
        return min(max(wanted, partition.earliest), partition.latest)


def parse_start_position(text: str) -> StartPosition:
    """The position that `text` means."""
    if text in ("beginning", "earliest", "start"):
        return StartPosition(Start.BEGINNING)
    if text in ("end", "latest"):
        return StartPosition(Start.END)
    if text.startswith("@"):
        return StartPosition(Start.TIME, _parse_time(text[1:]))
    kind, digits = (Start.LAST, text[1:]) if text.startswith("-") else (Start.OFFSET, text)
    if not (digits.isascii() and digits.isdigit()) or int(digits) >= 2**63:
        raise UsageError(f"-o takes beginning, end, an offset, -N for the last N records, or @TIME, and got {text!r}.")
    return StartPosition(kind, int(digits))


def _parse_time(text: str) -> int:
    if text.isascii() and text.isdigit() and int(text) < 2**63:
        return int(text)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise UsageError(f"-o @{text} is no time: give milliseconds since 1970 or a date as 2026-01-31T12:00:00.") from error
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return int(moment.timestamp() * 1000)
