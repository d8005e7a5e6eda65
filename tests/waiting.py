"""Waiting in tests: for a condition, with a deadline, never for a while.

The deadline is generous because it only costs time when a test fails.
"""

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")

DEADLINE_S = 30.0
TURNS = 1_000
"""What only the loop has to do is done within fewer; after that others need the core."""


def wait_until(condition: Callable[[], T], what: str, *, deadline_s: float = DEADLINE_S) -> T:
    """Ask again and again until the condition is true; returns what it returned."""
    end = time.monotonic() + deadline_s
    while True:
        result = condition()
        if result:
            return result
        if time.monotonic() > end:
            raise AssertionError(f"not within {deadline_s:g} s: {what}")
        time.sleep(0.005)


async def eventually(condition: Callable[[], object], what: str = "the condition holds", *, deadline_s: float = DEADLINE_S) -> None:
    """The same for what happens on the event loop of the test, or in a thread of a broker that runs there."""
    end = time.monotonic() + deadline_s
    turns = 0
    while not condition():
        if time.monotonic() > end:
            raise AssertionError(f"not within {deadline_s:g} s: {what}")
        await asyncio.sleep(0 if turns < TURNS else 0.001)
        turns += 1


def is_gone(pid: int) -> bool:
    """Whether a process has ended."""
    try:
        # A zombie whose parent has not asked for its code yet is gone too.
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True
