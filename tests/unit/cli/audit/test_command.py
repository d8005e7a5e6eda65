from pathlib import Path

import pytest

from millstream.cli.audit.command import _clusters, _duration_ms, _moment, _pattern
from millstream.errors import MillstreamError, UsageError

NOW = 1_800_000_000_000


@pytest.mark.parametrize(("text", "found"), [("500ms", 500), ("30s", 30_000), ("10m", 600_000), ("2h", 7_200_000), ("7d", 604_800_000)])
def test_durations(text: str, found: int) -> None:
    assert _duration_ms(text, "--bucket") == found


@pytest.mark.parametrize("text", ["", "10", "m", "-5s", "1.5h", "0s"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="--bucket"):
        _duration_ms(text, "--bucket")


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (None, None),
        ("2h", NOW - 7_200_000),
        ("2027-01-15T08:00:00Z", NOW),
        ("2027-01-15T08:00", NOW),
        ("2027-01-15T10:00+02:00", NOW),
        ("2027-01-15", NOW - 8 * 3_600_000),
    ],
)
def test_moments(text: str | None, found: int | None) -> None:
    assert _moment(text, "--since", NOW) == found


def test_what_is_no_moment_or_expression_is_refused() -> None:
    with pytest.raises(UsageError, match="--since yesterday: expected a time such as"):
        _moment("yesterday", "--since", NOW)
    with pytest.raises(UsageError, match=r"--topic \(: not a regular expression"):
        _pattern("(", "--topic")


def test_each_cluster_has_the_options_of_its_file(tmp_path: Path) -> None:
    (tmp_path / "live").write_text("client.rack=a\n")
    named: dict[str, object] = {"bucket": "1m", "grace": "0s", "registry": None, "no_logs": True}
    first, second = _clusters(["h:1", "h:2"], [tmp_path / "live"], ["check.crcs=true"], **named)  # type: ignore[arg-type]
    assert first.client_options == {"client.rack": "a", "check.crcs": "true", "bootstrap.servers": "h:1"}
    assert second.client_options == {"check.crcs": "true", "bootstrap.servers": "h:2"}
    assert (first.bucket_ms, first.grace_ms, first.reads_logs) == (60_000, 0, False)
    with pytest.raises(UsageError, match="2 files with --config are too many for 1 clusters"):
        _clusters(["h:1"], [tmp_path / "live"] * 2, None, **named)  # type: ignore[arg-type]
    with pytest.raises(MillstreamError, match=r"sasl\.password"):
        _clusters(["h:1"], None, ["sasl.password=secret"], **named)  # type: ignore[arg-type]
