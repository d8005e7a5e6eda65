"""Which topics of a mirror are paused: entries of the topic `_mirror` at the target (`mirror_topic`), which commands write. Pure.

pause/<mirror>/<topic>      {"since_ms": 1700000000000}; deleted: goes on. `*` as the topic: all of them
"""

import json
from collections.abc import Iterable
from typing import Final

EVERY_TOPIC: Final = "*"
_KIND: Final = "pause"


class PausedTopics:
    """What is paused of one mirror, by the keys of the entries there are."""

    def __init__(self, mirror: str, entries: Iterable[str] = ()) -> None:
        beginning = f"{_KIND}/{mirror}/"
        self.names = frozenset(key.removeprefix(beginning) for key in entries if key.startswith(beginning))

    def is_paused(self, topic: str) -> bool:
        """Whether a topic is paused, by its name or with all others."""
        return topic in self.names or EVERY_TOPIC in self.names


def pause_entries(mirror: str, topics: Iterable[str], *, now_ms: int) -> dict[str, bytes | None]:
    """What pauses these topics."""
    return {f"{_KIND}/{mirror}/{topic}": json.dumps({"since_ms": now_ms}).encode() for topic in topics}


def resume_entries(mirror: str, topics: Iterable[str]) -> dict[str, bytes | None]:
    """What lets these topics go on."""
    return {f"{_KIND}/{mirror}/{topic}": None for topic in topics}
