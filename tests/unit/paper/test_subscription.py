import pytest

from millstream.errors import UsageError
from millstream.paper.subscription import Subscription, check_name, read_offset, read_subscription


def test_a_subscription_is_read_as_it_was_written() -> None:
    subscription = Subscription({"clicks": 2, "views": 1})
    assert read_subscription(subscription.encode()) == subscription


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"{}", b'{"topics": 7}', b'{"topics": {"a": "x"}}'])
def test_what_another_program_wrote_there_is_no_subscription(data: bytes) -> None:
    assert read_subscription(data) is None


@pytest.mark.parametrize(("data", "offset"), [(b"0", 0), (b"1234\n", 1234), (b"", None), (b"-1", None), (b"x", None), (b"\xff", None)])
def test_an_offset_is_decimal_ascii(data: bytes, offset: int | None) -> None:
    assert read_offset(data) == offset


@pytest.mark.parametrize("name", ["", "a/b", ".", "..", "a\x00b", "a\nb"])
def test_a_name_that_cannot_stand_in_a_path_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match=r"the group .* cannot be"):
        check_name(name, "the group")


@pytest.mark.parametrize("name", ["search", "a.b-c_d", "größe", "two words"])
def test_other_names_are_good(name: str) -> None:
    assert check_name(name, "the group") == name
