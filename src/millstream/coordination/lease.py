"""How long a session in ZooKeeper is certainly alive without having been heard of. Pure.

ZooKeeper ends a session when it has heard nothing from it for the timeout; the controller then chooses other leaders. So until one timeout
after ZooKeeper heard from this session no other leader can have been chosen. Two things make the lease shorter than that:

- What is known is only when a request was *sent* that has been answered.
- A server of an ensemble answers for itself, and reports to the ensemble's leader, twice in a tick, which sessions it has heard from since
  the last report. A server that is cut off from its leader goes on answering reads. So only a request that the leader takes part in proves
  something (`sync`): the leader then has what was reported before it. That is every request sent a report earlier, half a tick; a
  timeout is at least two ticks, so half a tick is at most a quarter of it. Requests are sent eight times in a timeout, so the last one
  before the report was sent at most an eighth of it earlier still.

The clock is monotonic. A process that was stopped and goes on does not know how long it was away until it looks at the clock, so the lease
is looked at at every use.
"""

from typing import Final

NEVER: Final = float("-inf")
RENEWALS: Final = 8
"""How many requests are sent in one timeout to keep the lease."""
SHARE: Final = 1 - 1 / 4 - 1 / RENEWALS
"""Of the timeout that a lease lasts, from the sending of a request."""


class Lease:
    """The lease that goes with a session; times in milliseconds."""

    __slots__ = ("_sent_ms", "timeout_ms")

    def __init__(self, timeout_ms: float) -> None:
        self.timeout_ms = timeout_ms
        """What was negotiated with ZooKeeper, which may be less than what was asked for."""
        self._sent_ms = NEVER

    def answered(self, sent_ms: float) -> None:
        """A request that was sent then, and that ZooKeeper's leader took part in, has been answered."""
        self._sent_ms = max(self._sent_ms, sent_ms)

    def ended(self) -> None:
        """The session is over."""
        self._sent_ms = NEVER

    def is_held(self, now_ms: float) -> bool:
        """Whether ZooKeeper cannot have ended the session by now."""
        return now_ms < self._sent_ms + self.timeout_ms * SHARE
