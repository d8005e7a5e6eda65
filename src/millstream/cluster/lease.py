"""How long a broker may take itself for the leader without having heard of it. Pure.

ZooKeeper ends a session when it has heard nothing from it for the timeout; the controller then chooses other leaders. A request that was
answered was heard *after it was sent*: so until one timeout after the sending of the last answered request no other leader can have been
chosen. The clock is monotonic. A broker that was stopped and goes on does not know how long it was away until it looks at the clock, so the
lease is asked for at every use.
"""

NEVER = float("-inf")


class Lease:
    """The lease that goes with a session."""

    __slots__ = ("_sent_s", "timeout_s")

    def __init__(self, timeout_s: float) -> None:
        self.timeout_s = timeout_s
        """What was negotiated with ZooKeeper, which may be less than what was asked for."""
        self._sent_s = NEVER

    def answered(self, sent_s: float) -> None:
        """A request that was sent then has been answered."""
        self._sent_s = max(self._sent_s, sent_s)

    def ended(self) -> None:
        """The session is over."""
        self._sent_s = NEVER

    def is_held(self, now_s: float) -> bool:
        """Whether no other broker can have been chosen by now."""
        return now_s < self._sent_s + self.timeout_s
