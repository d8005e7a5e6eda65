from millstream.audit.offset_set import OffsetSet
from millstream.audit.reports.report import Count, ReadRange
from millstream.audit.reports.report_fields import report_fields, report_of
from millstream.audit.reports.report_schema import REPORT_SCHEMA
from millstream.json_object import JsonObject
from millstream.registry.avro_codec import avro_codec
from tests.unit.audit.some_reports import DELAY, report


def test_a_report_goes_through_avro_as_it_is() -> None:
    codec = avro_codec(REPORT_SCHEMA, [])
    whole = report(
        Count(600_000, 12, 3_000, partition=2, malformed=1, delay=DELAY, offsets=OffsetSet.of((5, 15), (20, 22))),
        Count(-2, 1),
        progress_ms=5,
        read=(ReadRange(2, 5, 22),),
    )
    for one in (whole, report()):
        assert report_of(JsonObject(codec.decode(codec.encode(report_fields(one), b""), 0, None))) == one
