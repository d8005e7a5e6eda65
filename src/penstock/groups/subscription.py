"""Which topics a member of a classic group of consumers reads: the one thing the broker looks up in what members tell each other.

subscription   int16 version | array of string topics | (what follows does not matter here)
"""

from penstock.errors import MalformedFrame
from penstock.groups.fields import FieldReader


def subscribed_topics(metadata: bytes) -> frozenset[str] | None:
    """The topics of a subscription in the format of Kafka's consumers; None if it is in another."""
    reader = FieldReader(metadata)
    try:
        if reader.int16() < 0:
            return None
        return frozenset(reader.string() for _ in range(reader.count32()))
    except MalformedFrame:
        return None
