from typing import Any

import pytest

from millstream.errors import UsageError
from millstream.spark.jobs.load_settings import LoadSettings


def settings(**given: Any) -> LoadSettings:
    return LoadSettings(**{"brokers": "127.0.0.1:9092", "topics": ("clicks",), "to": "lake", "checkpoint": "here", **given})


def test_settings_travel_as_text_without_secrets() -> None:
    whole = settings(topics=("a", "b"), options={"sasl.password": "hush"}, audit="lake")
    assert "hush" not in whole.document()
    assert "hush" not in repr(whole)
    assert LoadSettings.of(whole.document()) == settings(topics=("a", "b"), audit="lake")
    assert whole.read_options()["kafka.sasl.password"] == "hush"


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"topics": ()}, "name at least one"),
        ({"topics": ("..",)}, "not the name of a topic"),
        ({"value_format": "json"}, "needs a value-schema"),
        ({"value_schema": "n INT"}, "goes with value-format json"),
        ({"value_format": "avro", "registry": "localhost"}, "localhost"),
        ({"batch_messages": 0}, "above zero"),
        ({"every_s": -1}, "0 .as soon as possible. to 86400"),
        ({"name": "two words"}, "name 'two words'"),
        ({"audit": "two words"}, "no name of a tier"),
        ({"table": "parquet", "dead_letters": "bad"}, "ends at a malformed message"),
        ({"table": "parquet", "value_format": "avro", "registry": "http://a:1", "topics": ("a", "b")}, "takes one topic"),
    ],
)
def test_what_cannot_be_done_is_said(given: dict[str, Any], problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        settings(**given)


def test_dead_letters_have_a_topic_of_their_own() -> None:
    assert settings().dead_letter_topic("clicks") == "clicks-dead-letters"
    assert settings(dead_letters="bad").dead_letter_topic("clicks") == "bad"
