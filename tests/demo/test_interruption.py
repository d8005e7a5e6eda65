"""Signals that ask the demo to end."""

import signal

import pytest

from demo.interruption import SIGNALS, uninterrupted


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_that_comes_at_the_wrong_moment_has_its_effect_afterwards(number: signal.Signals) -> None:
    former = signal.signal(number, signal.default_int_handler)
    done: list[str] = []
    try:
        with pytest.raises(KeyboardInterrupt):
            interrupted_work(number, done)
        assert signal.getsignal(number) is signal.default_int_handler
    finally:
        signal.signal(number, former)
    assert done == ["all of it"]


def interrupted_work(number: signal.Signals, done: list[str]) -> None:
    with uninterrupted():
        signal.raise_signal(number)
        done.append("all of it")
