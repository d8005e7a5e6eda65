import pytest

from tests.unit.cli.conftest import Millstream


@pytest.mark.parametrize("command", [["list"], ["describe", "g"], ["delete", "g"], ["seek", "g", "latest"]])
def test_a_broker_that_is_not_there_is_reported_with_what_to_do(millstream: Millstream, command: list[str]) -> None:
    outcome = millstream("group", *command, "-b", "127.0.0.1:1")
    assert outcome.code == 1
    assert outcome.out == ""
    assert outcome.err.count("\n") == 1
    assert "millstream serve" in outcome.err


@pytest.mark.parametrize("arguments", [["list", "--state", "sleeping"], ["list", "--type", "modern"], ["describe"], ["delete"]])
def test_what_is_asked_wrongly_is_a_usage_error(millstream: Millstream, arguments: list[str]) -> None:
    assert millstream("group", *arguments).code == 2
