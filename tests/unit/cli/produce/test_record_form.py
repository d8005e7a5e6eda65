import json
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.cli.produce.record_form import ANY_PARTITION, JsonForm, Outgoing, RecordForm
from millstream.cli.record_output import RecordFormat, RecordFormatter, ShownRecord
from millstream.errors import UsageError


def test_a_line_is_a_value() -> None:
    assert RecordForm().split(b"a:b") == (None, b"a:b")
    assert RecordForm(key=b"k").split(b"") == (b"k", b"")


def test_a_separator_parts_the_key_from_the_value_at_its_first_place() -> None:
    form = RecordForm(key_separator=b"::")
    assert form.split(b"k::v::w") == (b"k", b"v::w")
    assert form.split(b"::v") == (b"", b"v")
    with pytest.raises(UsageError, match="separator"):
        form.split(b"k:v")


def test_an_empty_value_is_a_tombstone_only_when_asked_for() -> None:
    assert RecordForm(key_separator=b":").split(b"k:") == (b"k", b"")
    assert RecordForm(key_separator=b":", empty_is_null=True).split(b"k:") == (b"k", None)


CONTENT = st.none() | st.binary(max_size=20) | st.text(max_size=10).map(str.encode)
WRITE = RecordFormatter(RecordFormat.JSON)


@given(CONTENT, CONTENT, st.lists(st.tuples(st.text(max_size=5), CONTENT), max_size=3), st.integers(0, 5), st.integers(1, 2**40))
def test_what_consume_writes_as_json_is_read_back_to_the_byte(
    key: bytes | None, value: bytes | None, headers: list[tuple[str, bytes | None]], partition: int, timestamp: int
) -> None:
    line = WRITE(ShownRecord("clicks", partition, 7, timestamp, key, value, headers))
    assert JsonForm()(line) == Outgoing(key, value, headers, partition, timestamp)


def line_of(**fields: object) -> bytes:
    return json.dumps(fields).encode()


def test_everything_in_a_line_may_be_left_out() -> None:
    assert JsonForm()(b"{}") == Outgoing(None, None, [], ANY_PARTITION, 0)


def test_partition_of_a_line_gives_way_to_the_flags() -> None:
    line = line_of(partition=3, key="k")
    assert JsonForm()(line).partition == 3
    assert JsonForm(partition=1)(line).partition == 1
    assert JsonForm(by_key=True)(line).partition == ANY_PARTITION


def test_headers_of_the_command_follow_those_of_the_line() -> None:
    assert JsonForm(headers=[("b", b"2")])(line_of(headers={"a": "1"})).headers == [("a", b"1"), ("b", b"2")]


@pytest.mark.parametrize("value", [{"a": 1}, [1, None], 7, True, {"base64": "YQ==", "b": 1}])
def test_a_value_that_is_a_document_is_sent_as_its_text(value: object) -> None:
    assert JsonForm()(line_of(value=value)).value == json.dumps(value).encode()


def test_documents_are_encoded_where_a_schema_is_given() -> None:
    form = JsonForm(encode_value=lambda document: repr(document).encode())
    assert form(line_of(key="k", value={"a": 1}))[:2] == (b"k", b"{'a': 1}")
    assert form(line_of(value=None)).value is None


@pytest.mark.parametrize(
    "fields",
    [
        {"vlaue": "x"},
        {"value": {"base64": "?"}},
        {"value": "\ud800"},
        {"headers": "a"},
        {"headers": [["a"]]},
        {"headers": [[1, "a"]]},
        {"partition": "0"},
        {"partition": True},
        {"timestamp": 1.5},
        {"timestamp": 2**70},
    ],
    ids=str,
)
def test_a_line_that_is_no_record_is_refused_and_shown(fields: Mapping[str, object]) -> None:
    with pytest.raises(UsageError, match="is no record"):
        JsonForm()(line_of(**fields))


@pytest.mark.parametrize("line", [b"", b"[]", b"7", b"{", b"\xff", b"[" * 100_000])
def test_a_line_that_is_no_json_object_is_refused_and_shown(line: bytes) -> None:
    with pytest.raises(UsageError, match=r"The line '.*' is no (record|JSON)"):
        JsonForm()(line)
