"""Ctrl-C, and the other signals that ask the demo to end: they raise KeyboardInterrupt, but not while a process is being started."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def raise_when_interrupted() -> None:
    """From now on every such signal raises KeyboardInterrupt. A shell starts what runs in the background with SIGINT ignored."""
    for number in SIGNALS:
        signal.signal(number, signal.default_int_handler)


def ignore_interruptions() -> None:
    """From now on such signals change nothing: everything is being stopped."""
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)


@contextmanager
def uninterrupted() -> Iterator[None]:
    """A signal that comes meanwhile has its effect afterwards."""
    came: list[int] = []
    former = {number: signal.signal(number, lambda got, _: came.append(got)) for number in SIGNALS}
    try:
        yield
    finally:
        for number, handler in former.items():
            signal.signal(number, handler)
        if came:
            signal.raise_signal(came[0])
