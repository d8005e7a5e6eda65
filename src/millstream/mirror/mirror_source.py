"""Where a mirrored topic comes from: the value of the topic's option `mirror.source`.

    <cluster id>/<topic id>/<topic>            while it is mirrored
    promoting:<cluster id>/<topic id>/<topic>  while it is being promoted: takes neither mirrored nor produced records

The id distinguishes a topic from one of the same name that was made anew later. Neither a cluster id nor a topic name has a slash in it.
"""

from dataclasses import dataclass
from typing import Final, Self
from uuid import UUID

OPTION: Final = "mirror.source"
_PROMOTING: Final = "promoting:"


@dataclass(frozen=True, slots=True)
class MirrorSource:
    """A topic of a cluster."""

    cluster_id: str
    topic_id: UUID
    topic: str

    def __str__(self) -> str:
        return f"{self.cluster_id}/{self.topic_id}/{self.topic}"

    @property
    def promoting(self) -> str:
        """The option while the topic is being promoted: no mirror may append to it any more."""
        return _PROMOTING + str(self)

    @classmethod
    def parse(cls, text: str) -> Self | None:
        """The source that the option names, also while it is being promoted; None where it is empty or was not written by a mirror."""
        parts = text.removeprefix(_PROMOTING).split("/")
        if len(parts) != 3 or not all(parts):
            return None
        try:
            return cls(parts[0], UUID(parts[1]), parts[2])
        except ValueError:
            return None
