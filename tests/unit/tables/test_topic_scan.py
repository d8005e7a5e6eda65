"""What a scan is made of, before any broker is asked."""

import inspect

import pytest

from millstream.errors import UsageError
from millstream.tables.topic_scan import ScanArguments, require_arrow, scan


def test_read_table_takes_what_scan_takes() -> None:
    assert list(ScanArguments.__annotations__) == list(inspect.signature(scan).parameters)[1:]


def test_where_arrow_is_missing_the_line_to_install_it_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("millstream.tables.topic_scan.find_spec", lambda _: None)
    with pytest.raises(UsageError, match=r"needs numpy and pyarrow: pip install '\.\[arrow\]' in a checkout of Millstream"):
        require_arrow()


def test_a_scan_shows_no_secret() -> None:
    secrets = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.username": "ann", "sasl.password": "hidden"}
    made = scan("clicks", options=secrets, registry="http://ann:hidden@127.0.0.1:8081", value_format="avro")
    assert repr(made) == "<TopicScan of 'clicks' at 127.0.0.1:9092>"
    assert "hidden" not in repr(made.options)
