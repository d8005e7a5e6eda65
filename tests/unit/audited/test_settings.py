"""What a tier can be given, and the errors for what makes no sense."""

from typing import Any

import pytest

from millstream.audit.reports.report import Kind
from millstream.audited.settings import AuditSettings, audit_settings
from millstream.errors import UsageError


def test_a_name_is_enough() -> None:
    settings = audit_settings("shop")
    assert (settings.tier, settings.interval_ms, settings.bucket_ms, settings.registry) == ("shop", 10_000, 600_000, None)
    assert audit_settings(settings) is settings


def test_who_counts_is_found_out_where_it_is_not_said() -> None:
    found = AuditSettings("shop").origin(Kind.PRODUCER, "cluster-1")
    assert (found.tier, found.kind, found.datacentre, found.cluster) == ("shop", Kind.PRODUCER, "", "cluster-1")
    assert found.application
    assert found.host
    said = AuditSettings("shop", application="checkout", host="h1", datacentre="fra").origin(Kind.PRODUCER, "")
    assert said[2:5] == ("checkout", "h1", "fra")


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"tier": ""}, "no name of a tier"),
        ({"tier": "a b"}, "no name of a tier"),
        ({"tier": None}, "no name of a tier"),
        ({"tier": 7.5}, "no name of a tier"),
        ({"interval_s": 0}, "interval_s=0"),
        ({"interval_s": 1e9}, "interval_s"),
        ({"bucket_s": 0}, "bucket_s=0"),
        ({"bucket_s": 1.5}, "whole number of seconds"),
        ({"datacentre": "x" * 201}, "datacentre is a text"),
    ],
)
def test_what_cannot_be_is_refused_with_a_sentence(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        AuditSettings(**({"tier": "shop"} | wrong))


def test_a_password_is_not_shown() -> None:
    assert "secret" not in repr(AuditSettings("shop", options={"sasl.password": "secret"}))
