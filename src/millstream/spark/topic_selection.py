"""Which topics and partitions a query reads: exactly one of `subscribe`, `subscribePattern` and `assign`.

`subscribe` and `subscribePattern` follow the cluster: partitions and, with a pattern, topics that appear while the query runs are read too.
`assign` is what it says.
"""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from millstream.spark.options import OptionError
from millstream.topic_partition import TopicPartition


@dataclass(frozen=True, slots=True)
class TopicSelection:
    """The topics of a query: by name, by a pattern, or partition by partition; the other two are empty."""

    topics: tuple[str, ...] = ()
    pattern: str = ""
    partitions: tuple[TopicPartition, ...] = ()

    def names(self) -> tuple[str, ...] | None:
        """The topics that must exist, or None where a pattern decides."""
        if self.pattern:
            return None
        return self.topics or tuple(sorted({place.topic for place in self.partitions}))

    def matches(self, topic: str) -> bool:
        """Whether the topic is one of the query's."""
        return re.fullmatch(self.pattern, topic) is not None if self.pattern else topic in (self.names() or ())

    def choose(self, existing: Mapping[str, Iterable[int]]) -> tuple[TopicPartition, ...]:
        """The partitions to read, of those that exist now."""
        places = (TopicPartition(topic, number) for topic, numbers in existing.items() if self.matches(topic) for number in numbers)
        return tuple(sorted(place for place in places if not self.partitions or place in self.partitions))


def parse_selection(options: Mapping[str, str]) -> TopicSelection:
    """The selection that the options make. What a table of SQL is written to, its `topic`, is what it reads unless it says otherwise."""
    given = [name for name in ("subscribe", "subscribePattern", "assign") if name in options] or ["topic"] * ("topic" in options)
    if len(given) != 1:
        problem = "none was given" if not given else f"{len(given)} were given"
        raise OptionError("subscribe, subscribePattern, assign", f"exactly one of them says what to read, and {problem}")
    (name,) = given
    text = options[name]
    if name in {"subscribe", "topic"}:
        return TopicSelection(topics=_parse_topics(text))
    if name == "subscribePattern":
        return TopicSelection(pattern=_parse_pattern(text))
    return TopicSelection(partitions=_parse_assignment(text))


def _parse_topics(text: str) -> tuple[str, ...]:
    topics = tuple(sorted({topic.strip() for topic in text.split(",")} - {""}))
    if not topics:
        raise OptionError("subscribe", "there is no topic in it: give names, separated by commas")
    return topics


def _parse_pattern(text: str) -> str:
    try:
        re.compile(text)
    except re.error as error:
        raise OptionError("subscribePattern", f"{text!r} is not a regular expression: {error}") from None
    if not text.strip():
        raise OptionError("subscribePattern", "it is empty: give a regular expression that whole topic names match")
    return text


def _parse_assignment(text: str) -> tuple[TopicPartition, ...]:
    problem = f'{text!r} is not JSON of topics and partitions like {{"topic": [0, 1]}}'
    try:
        topics = json.loads(text)
    except ValueError as error:
        raise OptionError("assign", f"{problem} ({error})") from None
    if not isinstance(topics, dict) or not topics:
        raise OptionError("assign", problem)
    for partitions in topics.values():
        if not isinstance(partitions, list) or not partitions or any(type(number) is not int or number < 0 for number in partitions):
            raise OptionError("assign", problem)
    return tuple(sorted({TopicPartition(topic, number) for topic, partitions in topics.items() for number in partitions}))
