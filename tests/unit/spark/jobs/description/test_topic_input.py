import pytest

from millstream.errors import UsageError
from millstream.spark.jobs.description.topic_input import TopicInput, top_level_names


@pytest.mark.parametrize(
    ("schema", "names"),
    [
        ("page STRING, ms BIGINT", ["page", "ms"]),
        ("place STRUCT<country: STRING, city: STRING>, tags MAP<STRING, ARRAY<INT>>", ["place", "tags"]),
        ("`odd name` STRING, price DECIMAL(10, 2),", ["odd name", "price"]),
        ("page: STRING, ms:BIGINT", ["page", "ms"]),
        ("", []),
    ],
)
def test_the_columns_of_a_schema_are_found_without_spark(schema: str, names: list[str]) -> None:
    assert top_level_names(schema) == names


def test_columns_are_those_of_the_value_of_the_message_and_what_is_computed() -> None:
    events = TopicInput("views", schema="page STRING", columns={"host": "lower(page)"}, added=("section",))
    own = frozenset({"message_key", "message_time", "message_partition", "message_offset"})
    assert events.known_columns() == own | {"page", "host", "section"}
    assert TopicInput("views", format="string").known_columns() == own | {"value"}
    assert TopicInput("views", format="avro").known_columns() is None
    assert TopicInput("views", format="avro").known_columns(["page"]) == own | {"page"}


def test_a_column_is_found_whatever_its_case_and_however_deep_in_it() -> None:
    events = TopicInput("views", schema="page STRING, place STRUCT<country: STRING>")
    events.check_columns("input", {"by": ["PAGE", "place.country", "message_key"]})
    with pytest.raises(UsageError, match=r"by: the messages of views have no column 'plaice.country'"):
        events.check_columns("input", {"by": ["plaice.country"]})


def test_a_filter_or_a_watermark_may_change_and_what_state_is_about_may_not() -> None:
    events = TopicInput("views", schema="page STRING", watermark="1 hour", where="page = '/'", start="latest")
    assert events.identity() == TopicInput("views", schema="page STRING, user STRING").identity()
    assert events.identity() != TopicInput("views", schema="page STRING", deduplicate=True).identity()
