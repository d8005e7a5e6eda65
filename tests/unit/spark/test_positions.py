"""Offsets as Spark keeps them, and which partitions are chosen."""

import json

import pytest

from millstream.spark.options import OptionError
from millstream.spark.positions import format_offsets, read_offsets
from millstream.spark.topic_selection import TopicSelection, parse_selection
from millstream.topic_partition import TopicPartition

EXISTING = {"a": [0, 1], "ab": [0], "b": [0]}


def test_offsets_are_always_the_same_text() -> None:
    offsets = {TopicPartition("t", number): number for number in (11, 2, 0)} | {TopicPartition("a", 1): 5}
    text = json.dumps(format_offsets(offsets))
    assert text == json.dumps(format_offsets(dict(reversed(offsets.items()))))
    assert text == '{"a": {"1": 5}, "t": {"0": 0, "2": 2, "11": 11}}'
    assert read_offsets(json.loads(text)) == offsets


def test_topics_are_chosen_by_name_pattern_or_partition() -> None:
    def chosen(**options: str) -> list[str]:
        return [str(place) for place in parse_selection(options).choose(EXISTING)]

    assert chosen(subscribe="b, a") == ["a-0", "a-1", "b-0"]
    assert chosen(subscribePattern="a.*") == ["a-0", "a-1", "ab-0"]
    assert chosen(subscribePattern="a") == ["a-0", "a-1"]
    assert chosen(assign='{"a": [1, 7], "c": [0]}') == ["a-1"]
    assert parse_selection({"assign": '{"a": [1]}'}) == TopicSelection(partitions=(TopicPartition("a", 1),))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "none was given"),
        ({"subscribePattern": "a("}, "option subscribePattern: 'a\\(' is not a regular expression"),
        ({"subscribePattern": " "}, "option subscribePattern: it is empty"),
        ({"assign": "a"}, "option assign: 'a' is not JSON of topics and partitions like"),
        ({"assign": '{"a": []}'}, "option assign: .* is not JSON of topics and partitions like"),
        ({"assign": '{"a": [-1]}'}, "option assign: .* is not JSON of topics and partitions like"),
        ({"assign": "{}"}, "option assign: .* is not JSON of topics and partitions like"),
    ],
    ids=str,
)
def test_a_wrong_selection_is_reported(options: dict[str, str], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        parse_selection(options)
