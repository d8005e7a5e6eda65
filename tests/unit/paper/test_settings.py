from typing import Any

import pytest

from millstream.errors import UsageError
from millstream.paper.settings import ConsumerSettings


@pytest.mark.parametrize(
    ("chosen", "hint"),
    [
        ({"start": "newest"}, "'earliest', 'latest'"),
        ({"expired": "ignore"}, "'earliest', 'latest', 'error'"),
        ({"auto_commit_interval_s": 0}, "above 0"),
        ({"handover_timeout_s": -1}, "above 0"),
        ({"connect_timeout_s": None}, "above 0"),
        ({"session_timeout_s": 0.1}, "at least"),
    ],
)
def test_a_setting_that_cannot_be_is_refused_with_what_can(chosen: dict[str, Any], hint: str) -> None:
    with pytest.raises(UsageError, match=hint) as caught:
        ConsumerSettings(**chosen)
    assert next(iter(chosen)) in str(caught.value)


def test_storing_offsets_may_be_left_to_the_application() -> None:
    assert ConsumerSettings(auto_commit_interval_s=None).auto_commit_interval_s is None
