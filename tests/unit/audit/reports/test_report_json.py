import json
from typing import Any

import pytest

from millstream.audit.offset_set import OffsetSet
from millstream.audit.reports.report import ANY_BUCKET, NO_TIME, Count, Kind, ReadRange
from millstream.audit.reports.report_json import decode_report, encode_report
from tests.unit.audit.some_reports import DELAY, origin, report

WHOLE = report(
    Count(600_000, 12, 3_000, partition=2, malformed=1, control=2, aborted=3, delay=DELAY, offsets=OffsetSet.of((5, 15), (20, 22))),
    Count(NO_TIME, 1),
    Count(ANY_BUCKET, 3, partition=0, offsets=OffsetSet((0, 4), holes=1)),
    sequence=7,
    by=origin("log", Kind.BROKER),
    sent_ms=1_700_000_000_000,
    is_last=True,
    progress_ms=5,
    read=(ReadRange(2, 5, 22),),
)


@pytest.mark.parametrize("written", [WHOLE, report()], ids=["everything", "nothing counted"])
def test_a_report_comes_back_as_it_was(written: Any) -> None:
    assert decode_report(encode_report(written)) == written


def test_offsets_are_written_as_a_start_and_lengths() -> None:
    assert json.loads(encode_report(WHOLE))["counts"][0]["offsets"] == [5, 10, 5, 2]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"reporter": "me"}, "reporter must be a UUID, and is 'me'"),
        ({"kind": "oracle"}, "kind must be one of producer, broker, mirror, consumer, load, and is 'oracle'"),
        ({"tier": ""}, "tier must have 1 to 1000 letters"),
        ({"tier": "web\x1b[2J"}, r"tier must be printable, and is 'web\\x1b\[2J'"),
        ({"topic": "a\nb"}, "topic must be printable"),
        ({"sequence": -1}, "sequence must be a whole number from 0"),
        ({"sequence": 2**63 - 1}, "sequence must be a whole number from 0"),
        ({"interval_ms": 3_600_001}, "interval_ms must be a whole number from 1 to 3600000"),
        ({"bucket_ms": 0}, "bucket_ms must be a whole number from 1"),
        ({"sent_ms": 2**63}, "sent_ms must be a whole number"),
        ({"is_last": 1}, "is_last must be true or false"),
        ({"counts": [3]}, r"counts\[0\] must be a JSON object"),
        ({"read": [{"partition": 0, "start": 5, "end": 4}]}, r"read\[0\]\.end must be a whole number from 5"),
    ],
)
def test_a_field_that_is_wrong_is_named(change: dict[str, object], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        decode_report(json.dumps({**json.loads(encode_report(WHOLE)), **change}).encode())


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"bucket": 5}, "bucket must be the start of one, a multiple of 600000, and is 5"),
        ({"count": 11}, "11 messages of partition 2 were counted, with 12 offsets"),
        ({"partition": -1}, "12 messages of partition -1 were counted, with 12 offsets"),
        ({"offsets": [5, 10, 0, 2]}, "lengths and gaps from 1 on"),
        ({"offsets": [5]}, "offsets must be a start and lengths"),
        ({"offsets": [5, True]}, "offsets must be whole numbers"),
        ({"offsets": [2**63, 12]}, "the highest offset is"),
        ({"holes": 13}, "holes must be a whole number"),
        ({"delay": 4}, r"counts\[0\]\.delay must be a JSON object"),
        ({"bytes": 2**53}, r"counts\[0\]\.bytes must be a whole number"),
        ({"bytes": "1"}, r"counts\[0\]\.bytes must be a whole number"),
    ],
)
def test_a_count_that_is_wrong_is_named(change: dict[str, object], said: str) -> None:
    fields = json.loads(encode_report(WHOLE))
    fields["counts"][0].update(change)
    with pytest.raises(ValueError, match=said):
        decode_report(json.dumps(fields).encode())


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"\xff", b"{}", b"[" * 100_000, b'{"sequence": ' + b"9" * 5_000 + b"}"])
def test_bytes_that_are_no_report_are_a_value_error(data: bytes) -> None:
    with pytest.raises(ValueError, match=r".{10}"):
        decode_report(data)
