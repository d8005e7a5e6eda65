import pytest

from millstream.errors import UsageError
from millstream.paper.consumer import check_name


@pytest.mark.parametrize("name", ["", "a/b", ".", "..", "a\x00b", "a\nb"])
def test_a_name_that_cannot_stand_in_a_path_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match=r"the group .* cannot be"):
        check_name(name, "the group")


@pytest.mark.parametrize("name", ["search", "a.b-c_d", "größe", "two words"])
def test_other_names_are_good(name: str) -> None:
    assert check_name(name, "the group") == name
