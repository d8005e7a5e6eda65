"""Which topics of which mirrors are paused: the content of the compacted topic `_mirror` at the target. Pure.

    key    pause/<mirror>/<topic>      `*` as the topic: all of them
    value  {"since_ms": 1700000000000}, or none: goes on

Keys of other kinds, and what cannot be read, are left alone.
"""

from typing import Final

TOPIC: Final = "_mirror"
EVERY_TOPIC: Final = "*"
_KIND: Final = "pause"


def pause_key(mirror: str, topic: str) -> bytes:
    """The key of a pause."""
    return f"{_KIND}/{mirror}/{topic}".encode()


class PausedTopics:
    """What is paused of one mirror, as far as the topic was read."""

    def __init__(self, mirror: str) -> None:
        self._mirror = mirror
        self.names: set[str] = set()

    def apply(self, key: bytes | None, value: bytes | None) -> None:
        """Take up the next record."""
        kind, _, rest = (key or b"").decode(errors="replace").partition("/")
        mirror, slash, topic = rest.partition("/")
        if kind != _KIND or not slash or mirror != self._mirror:
            return
        if value is None:
            self.names.discard(topic)
        else:
            self.names.add(topic)

    def is_paused(self, topic: str) -> bool:
        """Whether a topic is paused, by its name or with all others."""
        return topic in self.names or EVERY_TOPIC in self.names
