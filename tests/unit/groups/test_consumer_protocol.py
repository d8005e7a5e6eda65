from uuid import UUID

import pytest

from millstream.errors import MalformedFrame
from millstream.groups.consumer_protocol import (
    ClassicAssignment,
    Subscription,
    by_id,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    subscribed_topics,
    version_of,
)
from millstream.groups.topic_image import TopicImage, TopicInfo


@pytest.mark.parametrize("version", [0, 1, 3, 9])
def test_the_topics_are_found_in_every_version(version: int) -> None:
    metadata = version.to_bytes(2, "big") + b"\x00\x00\x00\x02\x00\x01a\x00\x02bc" + b"whatever follows"
    assert subscribed_topics(metadata) == frozenset({"a", "bc"})


@pytest.mark.parametrize(
    "metadata", [b"", b"\x00", b"\xff\xff\x00\x00\x00\x00", b"\x00\x00\x7f\xff\xff\xff", b"\x00\x00\x00\x00\x00\x01\x00\x05a"]
)
def test_what_is_no_subscription_has_no_topics(metadata: bytes) -> None:
    assert subscribed_topics(metadata) is None


NAME, PARTITIONS = b"\x00\x01t", b"\x00\x00\x00\x02\x00\x00\x00\x00\x00\x00\x00\x03"
TOPICS, NO_DATA = b"\x00\x00\x00\x01" + NAME, b"\xff\xff\xff\xff"
OWNED = b"\x00\x00\x00\x01" + NAME + PARTITIONS
GENERATION, RACK = b"\x00\x00\x00\x07", b"\x00\x01r"


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"\x00\x00" + TOPICS + NO_DATA, Subscription(("t",))),
        (b"\x00\x01" + TOPICS + b"\x00\x00\x00\x01x" + OWNED, Subscription(("t",), (("t", (0, 3)),))),
        (b"\x00\x02" + TOPICS + NO_DATA + OWNED + GENERATION, Subscription(("t",), (("t", (0, 3)),))),
        (b"\x00\x03" + TOPICS + NO_DATA + OWNED + GENERATION + RACK, Subscription(("t",), (("t", (0, 3)),), "r")),
        (b"\x00\x09" + TOPICS + NO_DATA + OWNED + GENERATION + b"\xff\xff" + b"and more", Subscription(("t",), (("t", (0, 3)),))),
    ],
)
def test_subscription_is_read_in_every_version(content: bytes, expected: Subscription) -> None:
    assert decode_subscription(content) == expected
    for size in range(len(content)):
        if not content[:size].startswith(b"\x00\x09"):
            with pytest.raises(MalformedFrame):
                decode_subscription(content[:size])


def test_assignment_comes_back_as_it_was_written() -> None:
    content = encode_assignment((("t", (0, 3)), ("u", ())), version=2)
    assert content == b"\x00\x02\x00\x00\x00\x02" + NAME + PARTITIONS + b"\x00\x01u\x00\x00\x00\x00" + NO_DATA
    assert decode_assignment(content) == ClassicAssignment((("t", (0, 3)), ("u", ())))
    assert decode_assignment(content[:-4] + b"\x00\x00\x00\x01x").user_data == b"x"
    assert (version_of(content), version_of(b"\x00\x09")) == (2, 3)


def test_partitions_of_a_topic_that_is_named_twice_are_taken_together() -> None:
    """What a member says to own must not be taken for given up because of how it says it."""
    image = TopicImage({"t": TopicInfo(UUID(int=7), 4)})
    assert by_id((("t", (3,)), ("gone", (1,)), ("t", (0,))), image) == ((UUID(int=7), (0, 3)),)
