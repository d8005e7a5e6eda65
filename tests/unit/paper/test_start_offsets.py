import pytest

from millstream.paper.settings import ConsumerSettings, Expired, Start
from millstream.paper.start_offsets import Ends, start_offset

ENDS = Ends(earliest=10, latest=20)


@pytest.mark.parametrize(("start", "offset"), [("earliest", 10), ("latest", 20)])
def test_a_new_group_starts_at_the_end_it_is_set_to(start: Start, offset: int) -> None:
    assert start_offset(None, ENDS, ConsumerSettings(start=start)) == offset


@pytest.mark.parametrize("stored", [10, 15, 20])
def test_a_stored_offset_that_is_still_there_is_taken(stored: int) -> None:
    assert start_offset(stored, ENDS, ConsumerSettings(start="latest", expired="latest")) == stored


@pytest.mark.parametrize("stored", [9, 21])
@pytest.mark.parametrize(("expired", "offset"), [("earliest", 10), ("latest", 20)])
def test_an_expired_offset_gives_way_to_an_end(stored: int, expired: Expired, offset: int) -> None:
    assert start_offset(stored, ENDS, ConsumerSettings(expired=expired)) == offset


def test_an_expired_offset_is_kept_where_the_consumer_shall_say_so() -> None:
    assert start_offset(9, ENDS, ConsumerSettings(expired="error")) == 9
