"""The reader's side of a fetch session (KIP-227): which partitions the next request of a follower, or of a mirror, has to name.

The leader remembers what a session fetches, so that a request names only partitions that came, moved on or went. Pure: the reader adds and
removes partitions, asks for the next request, and reports the answer.

    request     (id, 0)       all partitions; the leader ends the session of that id, which may be 0 for none, and makes a new one, or
                              answers with the id 0 if it has no room: then again all
                (id, n)       only changes; n counts up from 1
    answer      an error of the session, or none at all: the next request begins anew

Of thousands of partitions that the leader does not know yet each request names some, so that neither side is busy with one request for
long; the next follows at once (`is_complete`). What has moved on is always named: the leader would send the same again.
"""

from itertools import islice
from typing import Final, NamedTuple

from millstream.client.codecs.replica_fetch import ReplicaKey

NO_SESSION: Final = 0
MAX_EPOCH: Final = 2**31 - 1
NEW_PER_REQUEST: Final = 1000
"""How many partitions that the leader does not know are named at a time: some milliseconds, here and there."""


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
        self._has_room = True
        """Whether the leader remembers what was named, as far as is known."""
        self._new: dict[ReplicaKey, None] = {}
        """What the leader does not know yet."""
        self._changed: dict[ReplicaKey, None] = {}
        """What the leader knows with another position."""
        self._gone: dict[ReplicaKey, None] = {}

    def __len__(self) -> int:
        return len(self._members)

    def add(self, key: ReplicaKey) -> None:
        """The partition is fetched from now on, or from another position; where all are named, the others are before it."""
        is_known = key in self._gone or (key in self._members and key not in self._new)
        self._members.pop(key, None)
        self._members[key] = None
        (self._changed if is_known else self._new)[key] = None
        self._gone.pop(key, None)

    def remove(self, key: ReplicaKey) -> None:
        """The partition is not fetched any more, or not for now."""
        if key in self._members:
            del self._members[key]
            self._changed.pop(key, None)
            if key in self._new:
                del self._new[key]
            else:
                self._gone[key] = None

    def next_request(self) -> SessionRequest:
        """What the next request has to say; `answered` or `reset` has to follow."""
        if self._epoch == 0:
            self._new = dict.fromkeys(self._members)
            self._changed.clear()
            self._gone.clear()
        new = list(islice(self._new, NEW_PER_REQUEST if self._has_room else None))
        named, forgotten = [*self._changed, *new], list(self._gone)
        for key in new:
            del self._new[key]
        self._changed.clear()
        self._gone.clear()
        return SessionRequest(self._id, self._epoch, named, forgotten)

    @property
    def is_complete(self) -> bool:
        """Whether everything was named: else the next request should not wait for anything."""
        return not self._new

    def answered(self, session_id: int) -> None:
        """The request was answered without an error: from now on the leader knows what it named, if there is a session."""
        self._id = session_id
        self._has_room = session_id != NO_SESSION
        if session_id == NO_SESSION:
            self._epoch = 0
        else:
            self._epoch = self._epoch + 1 if self._epoch < MAX_EPOCH else 1

    def reset(self) -> None:
        """The leader may know nothing: the next request names everything, in a new session in the place of this one."""
        self._epoch = 0
