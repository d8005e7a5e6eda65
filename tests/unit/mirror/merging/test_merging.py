"""What a merging mirror says while a cluster does not answer."""

import logging
import re
from collections.abc import Iterator

import pytest

from millstream.client.errors import BrokerUnavailable, ClientError
from millstream.mirror.merging import merging
from millstream.mirror.merging.merge_settings import MergeSettings
from millstream.mirror.merging.merging import Merging


class AwayMerging(Merging):
    """Finds a cluster away, for the reasons that a test gives, and ends after the last of them."""

    def __init__(self, reasons: list[ClientError]) -> None:
        super().__init__(MergeSettings("live:9092", "offline:9092", re.compile("orders"), "group"))
        self._reasons: Iterator[ClientError] = iter(reasons)

    def _look_at_both(self) -> None:
        reason = next(self._reasons, None)
        if reason is None:
            self.stop()
            raise BrokerUnavailable("b")
        raise reason


def test_a_cluster_that_is_away_is_said_once_for_each_reason(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(merging, "_PAUSE_S", 0)
    away = AwayMerging([BrokerUnavailable(reason) for reason in "aaabb"])
    with caplog.at_level(logging.WARNING):
        away.run()
    assert [record.getMessage()[-1] for record in caplog.records] == ["a", "b"]
    assert away.error == "b"
