import pytest

from millstream.mirror.copying.comparison import compare
from millstream.mirror.trouble import Stopped
from millstream.wire.batch import BatchHeader, read_header
from tests.batches import encode_batch


def header(at: int, value: bytes = b"x", *, epoch: int = 0) -> BatchHeader:
    return read_header(encode_batch([value], timestamp=5, base_offset=at, leader_epoch=epoch))


def test_as_many_batches_are_compared_as_both_have_below_the_end() -> None:
    source = [header(5, epoch=7), header(6, epoch=8), header(9, b"later"), header(12)]
    assert compare(source, [header(5), header(6)], end=100) == (7, 8)
    assert compare(source, [header(5), header(6), header(9, b"other")], end=9) == (7, 8)
    assert compare(source, [], end=9) is None


@pytest.mark.parametrize("other", [header(6, b"y"), header(7), read_header(encode_batch([b"x", b"x"], timestamp=5, base_offset=6))])
def test_other_bytes_or_offsets_stop_the_partition(other: BatchHeader) -> None:
    with pytest.raises(Stopped, match="from offset 6 on the target has other records"):
        compare([header(5), header(6)], [header(5), other], end=100)
