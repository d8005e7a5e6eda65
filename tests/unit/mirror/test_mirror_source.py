from uuid import UUID

import pytest

from millstream.mirror.mirror_source import MirrorSource

SOURCE = MirrorSource("live", UUID(int=1), "orders")


@pytest.mark.parametrize("text", ["", "a/b/c", "a//c", "live/00000000-0000-0000-0000-000000000001/a/b", "nothing"])
def test_a_source_that_no_mirror_wrote_is_none(text: str) -> None:
    assert MirrorSource.parse(text) is None


def test_a_source_is_read_as_it_was_written() -> None:
    assert MirrorSource.parse(str(SOURCE)) == MirrorSource.parse(SOURCE.promoting) == SOURCE
