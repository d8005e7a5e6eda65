import pytest

from tests.unit.cli.conftest import Millstream


@pytest.mark.parametrize("arguments", [[], ["-o", "latest", "--by", "3"]])
def test_seek_needs_one_place_to_go_to(millstream: Millstream, arguments: list[str]) -> None:
    outcome = millstream("group", "seek", "orders", *arguments)
    assert outcome.code == 2
    assert "either -o OFFSET" in outcome.err


@pytest.mark.parametrize("text", ["middle", "@yesterday", "1.5"])
def test_place_that_is_none_is_refused_before_a_broker_is_asked(millstream: Millstream, text: str) -> None:
    outcome = millstream("group", "seek", "orders", "-o", text)
    assert outcome.code == 2
    assert "-o" in outcome.err
