"""What `millstream txn` says without a broker."""

import pytest

from millstream.cli.txn.command import state_word
from tests.unit.cli.conftest import Millstream


@pytest.mark.parametrize(("state", "word"), [("Ongoing", "ongoing"), ("PrepareEpochFence", "prepare-epoch-fence"), ("Dead", "dead")])
def test_states_are_written_in_one_manner(state: str, word: str) -> None:
    assert state_word(state) == word


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        (["list", "-t", "clicks"], "belong to --hanging"),
        (["list", "--hanging", "--state", "ongoing"], "two questions"),
        (["abort", "copier", "--producer", "7"], "name it, as in `txn abort TOPIC PARTITION`"),
    ],
)
def test_flags_that_do_not_go_together_are_refused(millstream: Millstream, arguments: list[str], hint: str) -> None:
    outcome = millstream("txn", *arguments)
    assert outcome.code == 2
    assert hint in outcome.err


def test_without_a_broker_it_says_where_none_answers(millstream: Millstream) -> None:
    outcome = millstream("txn", "list", "-b", "127.0.0.1:1")
    assert outcome.code == 1
    assert "No broker answers at 127.0.0.1:1: connection refused" in outcome.err
    assert "--brokers HOST:PORT" in outcome.err
