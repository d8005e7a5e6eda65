"""A client at work for as long as a test wants: it writes numbers to the partitions of a topic, or reads them, and notes each step.

Nothing is retried here: what a client reports is noted as an error, because its own default retries should have covered it.
"""

import threading
import time
from abc import ABC, abstractmethod
from collections import Counter
from typing import NamedTuple

PAUSE_S = 0.05
"""Between two records of a producer."""
END_DEADLINE_S = 150.0
"""A little longer than clients try to deliver by default."""


class Step(NamedTuple):
    """A record that was acknowledged, or delivered."""

    time: float
    partition: int
    offset: int
    value: int


class Worker(ABC):
    """One producer or consumer."""

    is_producer: bool
    keeps_all = True
    """Whether what it got acknowledged must be there whatever happens to one broker (acks=all)."""
    is_idempotent = False

    def __init__(self, name: str, topic: str) -> None:
        self.name = name
        self.topic = topic
        self.errors: list[str] = []

    @property
    @abstractmethod
    def steps(self) -> list[Step]:
        """All so far."""

    @abstractmethod
    def start(self) -> None:
        """Begin."""

    @abstractmethod
    def end(self) -> None:
        """End in order: what was sent is acknowledged, what was handled is committed."""

    def progress(self) -> Counter[int]:
        """How many steps there were, by partition."""
        return Counter(step.partition for step in self.steps)

    def longest_stall(self, since: float) -> float:
        """The longest time between two steps of one partition."""
        longest, last = 0.0, dict.fromkeys(range(3), since)
        for step in self.steps:
            if step.time > since:
                longest = max(longest, step.time - last[step.partition])
                last[step.partition] = step.time
        return longest


class ThreadWorker(Worker):
    """A worker of this process."""

    def __init__(self, name: str, topic: str) -> None:
        super().__init__(name, topic)
        self._steps: list[Step] = []
        self._asked_to_end = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    @property
    def steps(self) -> list[Step]:
        return self._steps

    @property
    def is_wanted(self) -> bool:
        """Whether to go on."""
        return not self._asked_to_end.is_set()

    def start(self) -> None:
        self._thread.start()

    def end(self) -> None:
        self._asked_to_end.set()
        self._thread.join(END_DEADLINE_S)
        if self._thread.is_alive():
            self.errors.append("did not end")

    def noted(self, partition: int, offset: int, value: int) -> None:
        """One more step."""
        self._steps.append(Step(time.time(), partition, offset, value))

    def pause(self) -> None:
        """Until the next record is due."""
        self._asked_to_end.wait(PAUSE_S)

    @abstractmethod
    def work(self) -> None:
        """Until it is asked to end."""

    def _run(self) -> None:
        try:
            self.work()
        except Exception as error:  # noqa: BLE001 - there is no caller to raise it to
            self.errors.append(f"ended with {error!r}")
