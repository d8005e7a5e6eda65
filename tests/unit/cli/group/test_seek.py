import pytest

from tests.unit.cli.conftest import Millstream


@pytest.mark.parametrize("arguments", [[], ["latest", "--by", "3"]])
def test_seek_needs_one_place_to_go_to(millstream: Millstream, arguments: list[str]) -> None:
    outcome = millstream("group", "seek", "orders", *arguments)
    assert outcome.code == 2
    assert "either a position" in outcome.err


@pytest.mark.parametrize("text", ["middle", "@tomorrow", "1.5", "-24y"])
def test_place_that_is_none_is_refused_before_a_broker_is_asked(millstream: Millstream, text: str) -> None:
    outcome = millstream("group", "seek", "orders", text)
    assert outcome.code == 2
    assert "POSITION" in outcome.err


@pytest.mark.parametrize("text", ["-24h", "-3", "@yesterday", "@2026-11-14T08:00+01:00"])
def test_place_may_begin_with_a_minus(millstream: Millstream, text: str) -> None:
    outcome = millstream("group", "seek", "orders", text, "-b", "127.0.0.1:1")
    assert outcome.code == 1
    assert "No broker answers" in outcome.err
