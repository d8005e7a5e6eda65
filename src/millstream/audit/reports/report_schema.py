"""The Avro schema of a report: the fields of `report_fields`, one by one, with their names. A field that comes later gets a default."""

import json
from typing import Final

from millstream.audit.reports.report import Delay, Origin, ReadRange

_COUNT: Final = {
    "type": "record",
    "name": "Count",
    "fields": [
        {"name": "bucket", "type": "long", "doc": "its start in ms since 1970; -1: the tier did not look at times; -2: no time"},
        {"name": "partition", "type": "int", "doc": "-1: the tier does not know partitions"},
        *({"name": name, "type": "long"} for name in ("count", "bytes", "malformed", "control", "aborted")),
        {
            "name": "delay",
            "type": ["null", {"type": "record", "name": "Delay", "fields": [{"name": name, "type": "long"} for name in Delay._fields]}],
            "doc": "in ms, between the time of a message and its being counted",
        },
        {
            "name": "offsets",
            "type": ["null", {"type": "array", "items": "long"}],
            "doc": "a first offset, then lengths and gaps by turns; null: the tier does not know offsets",
        },
        {"name": "holes", "type": "long", "doc": "offsets within that were not counted; which ones is not known"},
    ],
}
_READ: Final = {
    "type": "record",
    "name": "ReadRange",
    "fields": [{"name": name, "type": "int" if name == "partition" else "long"} for name in ReadRange._fields],
}
REPORT_SCHEMA: Final = json.dumps(
    {
        "type": "record",
        "name": "AuditReport",
        "namespace": "millstream.audit",
        "fields": [
            {"name": "reporter", "type": "string", "doc": "a UUID; with the sequence it names the report"},
            {"name": "sequence", "type": "long"},
            *({"name": name, "type": "string"} for name in Origin._fields),
            {"name": "topic", "type": "string"},
            *({"name": name, "type": "long"} for name in ("bucket_ms", "sent_ms", "interval_ms")),
            {"name": "is_last", "type": "boolean"},
            {"name": "progress_ms", "type": ["null", "long"]},
            {"name": "counts", "type": {"type": "array", "items": _COUNT}},
            {"name": "read", "type": {"type": "array", "items": _READ}},
            {"name": "topic_id", "type": ["null", "string"], "default": None, "doc": "of who reads a log"},
        ],
    }
)
