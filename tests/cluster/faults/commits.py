"""Committed offsets of groups against the log that they are written to. Pure: attempts, answers and records in, problems out.

Every commit carries a label of its own as its metadata, so the log of committed offsets says in which order commits took effect, and an
answer says which of them it shows. That makes a register whose history is known, and a coordinator can keep these promises whatever its
clients do:

    an acknowledged commit is in the log
    an answer is not older than a commit that was acknowledged, or an answer that was given, before it was asked for
    commits stand in the log in an order that agrees with when they were asked for and acknowledged
    an offset is not overwritten by a lower one that was asked for after it had been acknowledged, unless the client did it

The last is about fencing: a member that no longer owns a partition must not commit. The client did it where a record is a repetition (a
request sent again, because its answer was lost), or was written after its member had given the partition up: librdkafka keeps commits
while there is no coordinator, and sends them with the generation it has by then, which a coordinator cannot distinguish from a good one.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from math import inf
from typing import NamedTuple

from tests.cluster.faults.checker import Problem
from tests.cluster.faults.history import Commit

KIND = "gone back"
CLOCK_S = 0.02
"""What the times in records, milliseconds of another clock, may be off."""


class CommitRecord(NamedTuple):
    """A committed offset in the log."""

    group: str
    partition: int
    offset: int
    label: str
    written: float


def check_commits(attempts: Sequence[Commit], answers: Sequence[Commit], log: Sequence[CommitRecord]) -> list[Problem]:
    """Every group and partition; `log` in its order, at least within each group."""
    histories: dict[tuple[str, int], _History] = defaultdict(_History)
    for attempt in attempts:
        histories[attempt.group, attempt.partition].attempts[attempt.label] = attempt
    for answer in answers:
        histories[answer.group, answer.partition].answers.append(answer)
    for record in log:
        histories[record.group, record.partition].append(record)
    return [
        Problem(KIND, f"group {group}, partition {partition}: {text}")
        for (group, partition), history in histories.items()
        for text in history.problems()
    ]


class _History:
    """Of one partition in one group."""

    def __init__(self) -> None:
        self.attempts: dict[str, Commit] = {}
        self.answers: list[Commit] = []
        self.log: list[CommitRecord] = []
        self.first: dict[str, int] = {}
        self.last: dict[str, int] = {}

    def append(self, record: CommitRecord) -> None:
        self.first.setdefault(record.label, len(self.log))
        self.last[record.label] = len(self.log)
        self.log.append(record)

    def problems(self) -> Iterator[str]:
        for attempt in self.attempts.values():
            if attempt.ended < inf and attempt.label not in self.first:
                yield f"{_said(attempt)} was acknowledged and is not in the log"
        for record in self.log:
            if record.label not in self.attempts:
                yield f"the log has {record.offset} ({record.label}), which no member asked for"
        yield from self._stale_answers()
        yield from self._disorder()
        yield from self._lowered()

    def _stale_answers(self) -> Iterator[str]:
        known = _Known(self.attempts, self.first)
        given = iter(sorted(self.answers, key=lambda answer: answer.ended))
        waiting = next(given, None)
        seen = (-1, "")
        for answer in sorted(self.answers, key=lambda answer: answer.began):
            while waiting is not None and waiting.ended < answer.began:
                seen = max(seen, (self.first.get(waiting.label, -1), _said(waiting)))
                waiting = next(given, None)
            position, newer = max(seen, known.acknowledged_before(answer.began))
            if answer.label and self.last.get(answer.label, -1) < 0:
                yield f"the answer {_said(answer)} is not in the log"
            elif answer.label and self.log[self.first[answer.label]].offset != answer.offset:
                yield f"the answer {_said(answer)} has another offset than the log"
            elif self.last.get(answer.label, -1) < position:
                yield f"{_said(answer)} was answered when {newer} had been acknowledged or answered"

    def _disorder(self) -> Iterator[str]:
        known = _Known(self.attempts, self.first)
        for attempt in sorted(self.attempts.values(), key=lambda attempt: attempt.began):
            position, before = known.acknowledged_before(attempt.began)
            if self.first.get(attempt.label, position) < position:
                yield f"{_said(attempt)} stands in the log before {before}, and was asked for when that was acknowledged"

    def _lowered(self) -> Iterator[str]:
        highest = -1
        for number, record in enumerate(self.log):
            if record.offset >= highest:
                highest = record.offset
            elif self._is_in_order(number):
                began = self.attempts[record.label].began
                for before in range(number):
                    other = self.attempts.get(self.log[before].label)
                    if other is not None and other.offset > record.offset and other.ended < began and self._is_in_order(before):
                        yield f"{_said(self.attempts[record.label])} was written over {_said(other)}, which was acknowledged before"
                        break

    def _is_in_order(self, number: int) -> bool:
        """Whether the client sent that commit once, and as the owner of the partition."""
        record = self.log[number]
        attempt = self.attempts.get(record.label)
        return attempt is not None and self.first[record.label] == number and record.written + CLOCK_S < attempt.released


class _Known:
    """The furthest in the log that had been acknowledged, by time; asked for times that ascend."""

    def __init__(self, attempts: Mapping[str, Commit], first: Mapping[str, int]) -> None:
        acknowledged = (attempt for attempt in attempts.values() if attempt.ended < inf and attempt.label in first)
        self._left = iter(sorted(acknowledged, key=lambda attempt: attempt.ended))
        self._next = next(self._left, None)
        self._first = first
        self._furthest = (-1, "")

    def acknowledged_before(self, time: float) -> tuple[int, str]:
        """Its position, and what it is; -1 if there is nothing."""
        while self._next is not None and self._next.ended < time:
            self._furthest = max(self._furthest, (self._first[self._next.label], _said(self._next)))
            self._next = next(self._left, None)
        return self._furthest


def _said(commit: Commit) -> str:
    return f"{commit.offset} ({commit.label or 'nothing committed'})"
