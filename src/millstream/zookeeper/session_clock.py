"""When a session times out: pure deadlines, checked at every tick.

A stalled server must not blame its clients: while it was not running it could not hear them. So a tick that comes late moves every
deadline by the lateness and expires nobody; the pings that wait in the sockets are read before the next one.
"""

from millstream.zookeeper.tree import Session


class SessionClock:
    """Deadlines of the sessions that have a timeout."""

    def __init__(self, *, tick_ms: int = 100) -> None:
        self.tick_ms = tick_ms
        self._deadlines: dict[int, int] = {}
        self._next_tick_ms: int | None = None

    def __bool__(self) -> bool:
        return bool(self._deadlines)

    def touch(self, session: Session, *, now_ms: int) -> None:
        """The client was heard: it has its full timeout again."""
        if session.timeout_ms > 0:
            self._deadlines[session.session_id] = now_ms + session.timeout_ms

    def forget(self, session_id: int) -> None:
        """The session is over."""
        self._deadlines.pop(session_id, None)

    def start(self, *, now_ms: int) -> None:
        """Ticks begin (again); the time before is no lateness."""
        self._next_tick_ms = now_ms + self.tick_ms

    def tick(self, *, now_ms: int) -> list[int]:
        """The sessions whose time is over."""
        lateness_ms = 0 if self._next_tick_ms is None else now_ms - self._next_tick_ms
        self._next_tick_ms = now_ms + self.tick_ms
        if lateness_ms > self.tick_ms:
            for session_id in self._deadlines:
                self._deadlines[session_id] += lateness_ms
            return []
        return [session_id for session_id, deadline in self._deadlines.items() if deadline <= now_ms]
