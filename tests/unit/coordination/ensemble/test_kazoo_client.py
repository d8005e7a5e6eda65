import pytest

from millstream.coordination.ensemble.kazoo_client import greeting_s


@pytest.mark.parametrize(
    ("session_s", "hosts", "expected"),
    [(18, 1, 3), (18, 3, 3), (18, 5, 3), (18, 9, 2), (6, 1, 2), (1.5, 1, 1.5)],
)
def test_a_greeting_leaves_time_for_others_in_the_session(session_s: float, hosts: int, expected: float) -> None:
    assert greeting_s(session_s, hosts) == expected
