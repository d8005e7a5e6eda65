"""Where a read begins and ends, as its options say it: at an edge of the log, at offsets, or at points in time.

    startingOffsets               earliest | latest | {"topic": {"0": 23, "1": -2}}     -2 earliest, -1 latest
    startingTimestamp             1700000000000, for every partition
    startingOffsetsByTimestamp    {"topic": {"0": 1700000000000}}

and the same with `ending`. The words and numbers are those of Spark's own connector. What is asked of the broker to make offsets of them is
not known here.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass

from millstream.offset import EARLIEST, LATEST
from millstream.spark.options import LARGEST_LONG, OptionError
from millstream.topic_partition import TopicPartition

Offsets = Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class AtEdge:
    """Every partition at its beginning (`EARLIEST`) or end (`LATEST`)."""

    edge: int


@dataclass(frozen=True, slots=True)
class AtOffsets:
    """Each partition at an offset of its own; the edges are allowed as numbers."""

    offsets: Offsets


@dataclass(frozen=True, slots=True)
class AtTime:
    """Every partition at the first record of this time or later."""

    timestamp_ms: int


@dataclass(frozen=True, slots=True)
class AtTimes:
    """Each partition at the first record of its time or later."""

    timestamps_ms: Offsets


Position = AtEdge | AtOffsets | AtTime | AtTimes


def parse_offsets_option(option: str, text: str) -> AtEdge | AtOffsets:
    """`earliest`, `latest`, or offsets per partition as JSON."""
    word = text.strip().lower()
    if word in {"earliest", "latest"}:
        return AtEdge(EARLIEST if word == "earliest" else LATEST)
    if not word.startswith("{"):
        raise OptionError(option, f'{text!r} is neither "earliest" nor "latest" nor offsets as JSON like {{"topic": {{"0": 23, "1": -2}}}}')
    offsets = parse_numbers(option, text, example='{"topic": {"0": 23, "1": -2}}')
    for place, offset in offsets.items():
        if offset < EARLIEST:
            raise OptionError(option, f"{place} has offset {offset}: offsets are not negative, except -2 for earliest and -1 for latest")
    return AtOffsets(offsets)


def parse_timestamp_option(option: str, text: str) -> AtTime:
    """One point in time for every partition."""
    return AtTime(_timestamp(option, text.strip()))


def parse_timestamps_option(option: str, text: str) -> AtTimes:
    """Points in time per partition, as JSON."""
    times = parse_numbers(option, text, example='{"topic": {"0": 1700000000000}}')
    for place, time in times.items():
        if time < 0:
            raise OptionError(option, f"{place} has the timestamp {time}: milliseconds since 1970 are not negative")
    return AtTimes(times)


def parse_numbers(option: str, text: str, *, example: str) -> dict[TopicPartition, int]:
    """JSON of topics, partitions and numbers, like Spark writes its offsets."""
    problem = f"{text!r} is not JSON of topics and partitions like {example}"
    try:
        topics = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise OptionError(option, f"{problem} ({error})") from None
    if not isinstance(topics, dict) or not topics:
        raise OptionError(option, problem)
    numbers = {}
    for topic, partitions in topics.items():
        if not isinstance(partitions, dict) or not partitions:
            raise OptionError(option, f"{problem}: {topic!r} has no partitions")
        for partition, number in partitions.items():
            # bool is an int to Python, and "1" is not one to Spark.
            if not partition.isdecimal() or not partition.isascii() or type(number) is not int or number > LARGEST_LONG:
                raise OptionError(option, f"{problem}: {topic!r} has {json.dumps({partition: number})}")
            numbers[TopicPartition(topic, int(partition))] = number
    return dict(sorted(numbers.items()))


def format_offsets(offsets: Offsets) -> dict[str, dict[str, int]]:
    """Offsets as Spark keeps them in its checkpoint. Always in the same order: Spark compares offsets as JSON text, so without it a query
    would never see that there is nothing new."""
    topics: dict[str, dict[str, int]] = {}
    for (topic, partition), offset in sorted(offsets.items()):
        topics.setdefault(topic, {})[str(partition)] = offset
    return topics


def read_offsets(offsets: Mapping[str, Mapping[str, int]]) -> dict[TopicPartition, int]:
    """What `format_offsets` wrote, perhaps in another run of the query."""
    return {TopicPartition(topic, int(partition)): offset for topic, numbers in offsets.items() for partition, offset in numbers.items()}


def _timestamp(option: str, text: str) -> int:
    if not text.isascii() or not text.isdecimal() or len(text) > 19 or int(text) > LARGEST_LONG:
        raise OptionError(option, f"{text!r} is not a time in milliseconds since 1970, as in 1700000000000")
    return int(text)
