"""How long requests take, by API: counts in plain lists, and a line in the log for those that are slow.

A time is counted by its bit length in microseconds, so that a bucket is found by one call and its bounds are powers of two: bucket n holds
what took less than 2**n us (and not less than half of that). What is counted begins when the bytes of a request were received and ends
when its answer was handed to the socket, or to the queue in front of it. Requests that come together are timed together: each is given
the time of all of them. Requests without an answer (acks=0) are not counted.
"""

import logging
from collections import defaultdict
from collections.abc import Mapping
from time import monotonic_ns
from typing import Final, Protocol

from millstream.broker.network.session import Session
from millstream.wire.api import ApiKey

logger = logging.getLogger(__name__)

PRODUCE: Final = int(ApiKey.PRODUCE)
FETCH: Final = int(ApiKey.FETCH)
OFFSET_COMMIT: Final = int(ApiKey.OFFSET_COMMIT)
"""As plain numbers: to look up a member of an enumeration is a call."""
FOLLOWER_FETCH: Final = -1
"""Stands for the fetches of followers, beside the keys of APIs: Kafka counts them apart from those of consumers."""
TOTAL_US: Final = 63
"""Where in the list the sum of all times stands; everything before it is a bucket."""
LINE_EVERY_NS: Final = 1_000_000_000
_WAITING: Final = frozenset({ApiKey.FETCH, FOLLOWER_FETCH, ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP})
"""Clients send these to wait: that takes as long as there is nothing to say."""


class Seldom:
    """At most one line per second, however often there is something to say; the next line says how much was left out."""

    def __init__(self) -> None:
        self._quiet_until_ns = 0
        self._left_out = 0

    def ending(self, count: int = 1) -> str | None:
        """What a line for so many events ends with; None if it is too soon for one."""
        now_ns = monotonic_ns()
        if now_ns < self._quiet_until_ns:
            self._left_out += count
            return None
        left_out, self._left_out = self._left_out, 0
        self._quiet_until_ns = now_ns + LINE_EVERY_NS
        return f" ({left_out} more since the last such line)" if left_out else ""


class Asker(Protocol):
    """Whose request it was."""

    peer: str
    session: Session


class RequestTimes:
    """The times of all requests that were answered."""

    def __init__(self, *, slow_ms: int = 0) -> None:
        """What takes longer than `slow_ms` is logged, at most one line per second; 0 is never."""
        self._by_key: defaultdict[int, list[int]] = defaultdict(lambda: [0] * (TOTAL_US + 1))
        self._slow_us = slow_ms * 1000 if slow_ms else 1 << 62
        self._seldom = Seldom()

    @property
    def by_key(self) -> Mapping[int, list[int]]:
        """Per API key (or `FOLLOWER_FETCH`) how many requests there were in each bucket, and the sum at `TOTAL_US`."""
        return self._by_key

    def note(self, key: int, elapsed_ns: int, count: int, asker: Asker, *, has_waited: bool = False) -> None:
        """So many requests of one API were answered after that time; `has_waited`: not in the callback in which they came."""
        elapsed_us = elapsed_ns // 1000
        times = self._by_key[key]
        times[elapsed_us.bit_length()] += count
        times[TOTAL_US] += elapsed_us * count
        if elapsed_us > self._slow_us and not (has_waited and key in _WAITING):
            self._say_slow(key, elapsed_us, count, asker)

    def _say_slow(self, key: int, elapsed_us: int, count: int, asker: Asker) -> None:
        ending = self._seldom.ending(count)
        if ending is not None:
            client = f"{asker.peer}, client id {asker.session.client_id!r}"
            logger.warning("slow request: %s from %s took %d ms%s", request_name(key), client, elapsed_us // 1000, ending)


def request_name(key: int) -> str:
    """What Kafka's metrics call a request: `Produce`, `OffsetCommit`; fetches by who sends them."""
    if key == FOLLOWER_FETCH:
        return "FetchFollower"
    return "FetchConsumer" if key == ApiKey.FETCH else ApiKey(key).name.title().replace("_", "")
