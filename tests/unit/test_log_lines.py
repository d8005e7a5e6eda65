import json
import logging
import sys

import pytest

from millstream.errors import UsageError
from millstream.log_lines import AREAS, JsonLine, LogLevels, OneLine, area_of


def record(message: str, *, name: str = "millstream.groups.classic.rebalance") -> logging.LogRecord:
    return logging.LogRecord(name, logging.INFO, "file.py", 1, message, ("g",), None)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("warning", LogLevels("warning")),
        ("network=debug", LogLevels("info", {"millstream.broker.network": "debug"})),
        ("error,millstream.log=info", LogLevels("error", {"millstream.log": "info"})),
        ("debug, info", LogLevels("info")),
    ],
)
def test_levels_are_read(text: str, expected: LogLevels) -> None:
    assert LogLevels.parse(text) == expected


@pytest.mark.parametrize(
    ("text", "words"), [("loud", "debug, info"), ("groups=loud", "debug, info"), ("group=debug", "groups, "), ("", "one of")]
)
def test_wrong_level_or_area_is_refused_with_what_there_is(text: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        LogLevels.parse(text)


def test_every_area_has_loggers_and_a_logger_has_one_area() -> None:
    assert all(area_of(name) == area for area, names in AREAS.items() for name in names)
    assert area_of("millstream.broker.network.request_times") == "requests"
    assert area_of("kazoo.client") == ""


def test_event_is_one_line_of_text() -> None:
    assert OneLine("%(message)s").format(record("group %s\nrebalanced")) == "group g | rebalanced"


def test_event_is_one_object_of_json() -> None:
    line = JsonLine().format(record("group %s\nrebalanced"))
    assert "\n" not in line
    fields = json.loads(line)
    assert fields.pop("time").endswith("Z")
    assert fields == {
        "level": "info",
        "area": "groups",
        "logger": "millstream.groups.classic.rebalance",
        "message": "group g\nrebalanced",
    }


def test_traceback_is_a_field_of_its_own() -> None:
    failed = record("%s failed")
    try:
        raise ValueError("because")
    except ValueError:
        failed.exc_info = sys.exc_info()
    assert "ValueError: because" in json.loads(JsonLine().format(failed))["exception"]
