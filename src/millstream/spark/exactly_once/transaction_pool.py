"""The transactional ids of a write: a few for each of its tasks, used again by every micro-batch.

    <prefix>-<number of the task>-<attempt>        millstream-sink-<query id>-<topic>-3-0
    <prefix>-driver                                the one of the driver (`exactly_once.driver`), which is not of the pool

Each attempt of a task has an id of its own, so that attempts which run at the same time do not end each other's transactions. Coordinators
keep an id for a week after its last use: so there are at most `MOST_ATTEMPTS` of them per task, and the attempt after the last takes the
id of the first, which fences it if it still writes.
"""

import re
from typing import Final, NamedTuple, Self

MOST_ATTEMPTS: Final = 8
"""Twice as often as Spark runs a task by default before it gives up."""
_ID: Final = re.compile(r"(.+)-([0-9]+)-([0-9]+)", re.DOTALL)


class TransactionPool(NamedTuple):
    """The ids with one prefix."""

    prefix: str

    @classmethod
    def of(cls, transactional_id: str) -> Self:
        """The pool that an id is from."""
        found = _ID.fullmatch(transactional_id)
        assert found is not None, transactional_id
        return cls(found[1])

    @property
    def driver_id(self) -> str:
        """The id of the driver."""
        return f"{self.prefix}-driver"

    def id_of(self, task: int, attempt: int) -> str:
        """The id of an attempt of a task."""
        return f"{self.prefix}-{task}-{attempt % MOST_ATTEMPTS}"

    def place_of(self, transactional_id: str) -> tuple[int, int] | None:
        """Task and attempt of an id, if it is from this pool; a topic whose name ends with numbers does not deceive it."""
        found = _ID.fullmatch(transactional_id)
        return (int(found[2]), int(found[3])) if found is not None and found[1] == self.prefix else None
