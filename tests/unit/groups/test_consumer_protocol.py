import pytest

from penstock.groups.consumer_protocol import subscribed_topics


@pytest.mark.parametrize("version", [0, 1, 3, 9])
def test_the_topics_are_found_in_every_version(version: int) -> None:
    metadata = version.to_bytes(2, "big") + b"\x00\x00\x00\x02\x00\x01a\x00\x02bc" + b"whatever follows"
    assert subscribed_topics(metadata) == frozenset({"a", "bc"})


@pytest.mark.parametrize(
    "metadata", [b"", b"\x00", b"\xff\xff\x00\x00\x00\x00", b"\x00\x00\x7f\xff\xff\xff", b"\x00\x00\x00\x00\x00\x01\x00\x05a"]
)
def test_what_is_no_subscription_has_no_topics(metadata: bytes) -> None:
    assert subscribed_topics(metadata) is None
