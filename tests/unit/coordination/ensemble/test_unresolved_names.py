import pytest

from millstream.coordination.ensemble.unresolved_names import unresolved_names


def test_names_that_have_no_address_are_named() -> None:
    found = unresolved_names([("one.invalid", 2181), ("two.invalid", 2181)])
    assert found is not None
    assert "the name one.invalid cannot be resolved: " in found
    assert "the name two.invalid cannot be resolved: " in found


@pytest.mark.parametrize("servers", [[("127.0.0.1", 2181)], [("one.invalid", 2181), ("127.0.0.1", 2181)]])
def test_one_that_can_be_tried_is_enough(servers: list[tuple[str, int]]) -> None:
    assert unresolved_names(servers) is None
