"""Where keys go; the numbers are those of Kafka's own tests (UtilsTest.testMurmur2)."""

import pytest

from millstream.client.key_partition import key_partition, murmur2


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
        (b"", 275646681),
    ],
)
def test_the_hash_is_kafkas(data: bytes, expected: int) -> None:
    assert murmur2(data) == expected & 0xFFFFFFFF


def test_every_key_has_a_partition_that_exists() -> None:
    assert {key_partition(b"topic-%d" % number, 8) for number in range(200)} == set(range(8))
