import json
import re

from millstream.cli.record_output import Decoded, RecordFormat, RecordFormatter, ShownRecord, readable

RECORD = ShownRecord("clicks", 2, 7, 1_700_000_000_000, b"k", b"v", [("trace", b"1"), ("empty", None)])


def test_raw_output_is_the_value_and_a_newline() -> None:
    assert RecordFormatter(RecordFormat.RAW)(RECORD) == b"v\n"


def test_raw_output_with_a_separator_has_the_key_before_it() -> None:
    assert RecordFormatter(RecordFormat.RAW, key_separator=b":")(RECORD) == b"k:v\n"


def test_json_output_has_every_part_of_the_record() -> None:
    assert json.loads(RecordFormatter(RecordFormat.JSON)(RECORD)) == {
        "topic": "clicks",
        "partition": 2,
        "offset": 7,
        "timestamp": 1_700_000_000_000,
        "key": "k",
        "value": "v",
        "headers": [["trace", "1"], ["empty", None]],
    }


def test_json_output_carries_bytes_that_are_not_text_as_base64() -> None:
    document = json.loads(RecordFormatter(RecordFormat.JSON)(RECORD._replace(key=None, value=b"\xff\x00")))
    assert document["key"] is None
    assert document["value"] == {"base64": "/wA="}


def test_a_table_row_is_one_line_whatever_the_value_contains() -> None:
    row = RecordFormatter(RecordFormat.TABLE)(RECORD._replace(value=b"two\nlines\x1b[2J"))
    assert row.count(b"\n") == 1
    assert b"\x1b" not in row
    assert b"2023-11-14T22:13:20.000Z" in row


def test_colours_are_added_only_on_request_and_change_nothing_else() -> None:
    for form in (RecordFormat.JSON, RecordFormat.TABLE):
        plain, coloured = RecordFormatter(form)(RECORD), RecordFormatter(form, in_colour=True)(RECORD)
        assert b"\x1b[" not in plain
        assert b"\x1b[" in coloured
        assert re.sub(rb"\x1b\[\d+m", b"", coloured) == plain
    assert RecordFormatter(RecordFormat.RAW, in_colour=True)(RECORD) == b"v\n"


def test_decoded_values_are_documents_in_json_and_text_elsewhere() -> None:
    record = RECORD._replace(value=Decoded.of({"a": b"\xff", "b": [1]}))
    assert json.loads(RecordFormatter(RecordFormat.JSON)(record))["value"] == {"a": {"base64": "/w=="}, "b": [1]}
    assert RecordFormatter(RecordFormat.RAW)(record) == b'{"a": {"base64": "/w=="}, "b": [1]}\n'


def test_null_is_shown_as_such() -> None:
    assert readable(None) == "(null)"
    assert readable(b"") == ""
