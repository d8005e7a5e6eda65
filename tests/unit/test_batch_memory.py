import pytest

from millstream.batch_memory import batch_memory_of, is_batch_memory


@pytest.mark.parametrize("topic", [None, "orders"])
def test_the_groups_of_the_sink_are_known_by_their_names(topic: str | None) -> None:
    assert is_batch_memory(batch_memory_of("5b593f6e-122c-434b-9a95-a4d20a3c1a87", topic))


def test_other_groups_have_a_lag() -> None:
    assert not is_batch_memory("millstream-load")
    assert not is_batch_memory("orders-millstream-sink-1")
