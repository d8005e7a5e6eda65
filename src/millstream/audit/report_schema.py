"""The Avro schema of a report, for reporters and auditors that have a registry; its fields are those of `report_fields`.

A field that is added needs a default, so that auditors can read what older reporters write, and the other way round.
"""

import json
from typing import Final

_DELAY: Final = {
    "type": "record",
    "name": "Delay",
    "fields": [{"name": name, "type": "long"} for name in ("mean", "p95", "p99", "max")],
}
_COUNT: Final = {
    "type": "record",
    "name": "Count",
    "fields": [
        {"name": "bucket", "type": "long", "doc": "start in ms since 1970; -1: times were not looked at, -2: messages without a time"},
        {"name": "partition", "type": "int", "doc": "-1: not known"},
        *({"name": name, "type": "long"} for name in ("count", "bytes", "malformed", "control", "aborted")),
        {"name": "delay", "type": ["null", _DELAY], "default": None},
        {
            "name": "offsets",
            "type": ["null", {"type": "array", "items": "long"}],
            "default": None,
            "doc": "a start, then lengths and gaps in turn",
        },
        {"name": "holes", "type": "long", "default": 0},
    ],
}
_READ: Final = {
    "type": "record",
    "name": "ReadRange",
    "fields": [{"name": "partition", "type": "int"}, {"name": "start", "type": "long"}, {"name": "end", "type": "long"}],
}
REPORT_SCHEMA: Final = json.dumps(
    {
        "type": "record",
        "name": "Report",
        "namespace": "millstream.audit",
        "fields": [
            {"name": "reporter", "type": "string"},
            {"name": "sequence", "type": "long"},
            *({"name": name, "type": "string"} for name in ("tier", "kind", "application", "host", "datacentre", "cluster")),
            {"name": "target", "type": "string", "default": ""},
            {"name": "topic", "type": "string"},
            {"name": "bucket_ms", "type": "long"},
            {"name": "sent_ms", "type": "long"},
            {"name": "interval_ms", "type": "long"},
            {"name": "is_last", "type": "boolean"},
            {"name": "progress_ms", "type": ["null", "long"], "default": None},
            {"name": "counts", "type": {"type": "array", "items": _COUNT}},
            {"name": "read", "type": {"type": "array", "items": _READ}, "default": []},
        ],
    }
)
"""As text, for a registry; the subject is `_audit-value`."""
