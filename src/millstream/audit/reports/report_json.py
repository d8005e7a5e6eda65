"""A report as JSON: the encoding where there is no schema registry. It begins with `{`, a message with a schema id with a byte 0."""

import json

from millstream.audit.reports.report import Report
from millstream.audit.reports.report_fields import report_fields, report_of
from millstream.json_object import JsonObject


def encode_report(report: Report) -> bytes:
    """The bytes of a report."""
    return json.dumps(report_fields(report), separators=(",", ":")).encode()


def decode_report(data: bytes) -> Report:
    """The report in these bytes; a ValueError says what is wrong with them."""
    return report_of(JsonObject.parse(data))
