"""The follower's side of a fetch session (KIP-227): which partitions the next request has to name.

The leader remembers what a session fetches, so that a request names only partitions that came, moved on or went. Pure: the fetcher adds and
removes partitions, asks for the next request, and reports the answer.

    request     (id, 0)       all partitions; the leader ends the session of that id, which may be 0 for none, and makes a new one, or
                              answers with the id 0 if it has no room: then again all
                (id, n)       only changes; n counts up from 1
    answer      an error of the session, or none at all: the next request begins anew
"""

from typing import Final, NamedTuple

from millstream.client.replica_fetch import ReplicaKey

NO_SESSION: Final = 0
MAX_EPOCH: Final = 2**31 - 1


class SessionRequest(NamedTuple):
    """What a request says of its session."""

    session_id: int
    session_epoch: int
    named: list[ReplicaKey]
    """Partitions whose position the leader does not know."""
    forgotten: list[ReplicaKey]


class FetchSession:
    """What is fetched from one leader, and how much of that the leader knows."""

    def __init__(self) -> None:
        self._id = NO_SESSION
        self._epoch = 0
        self._members: dict[ReplicaKey, None] = {}
        self._changed: dict[ReplicaKey, None] = {}
        self._gone: dict[ReplicaKey, None] = {}

    def __len__(self) -> int:
        return len(self._members)

    def add(self, key: ReplicaKey) -> None:
        """The partition is fetched from now on, or from another position; where all are named, the others are before it."""
        self._members.pop(key, None)
        self._members[key] = None
        self._changed[key] = None
        self._gone.pop(key, None)

    def remove(self, key: ReplicaKey) -> None:
        """The partition is not fetched any more, or not for now."""
        if key in self._members:
            del self._members[key]
            self._changed.pop(key, None)
            self._gone[key] = None

    def next_request(self) -> SessionRequest:
        """What the next request has to say; `answered` or `reset` has to follow."""
        if self._epoch == 0:
            named, forgotten = list(self._members), []
        else:
            named, forgotten = list(self._changed), list(self._gone)
        self._changed.clear()
        self._gone.clear()
        return SessionRequest(self._id, self._epoch, named, forgotten)

    def answered(self, session_id: int) -> None:
        """The request was answered without an error: from now on the leader knows what it named, if there is a session."""
        self._id = session_id
        if session_id == NO_SESSION:
            self._epoch = 0
        else:
            self._epoch = self._epoch + 1 if self._epoch < MAX_EPOCH else 1

    def reset(self) -> None:
        """The leader may know nothing: the next request names everything, in a new session in the place of this one."""
        self._epoch = 0
