"""From librdkafka's statistics to a time before which everything has been answered."""

from typing import Any

from millstream.paper.delivery_progress import DeliveryProgress


def statistics(ts_s: float, partitions: dict[str, tuple[int, int]], *, unassigned: int = 0) -> dict[str, Any]:
    about = {number: {"msgs": given, "acked_msgid": acked, "msgq_cnt": 0} for number, (given, acked) in partitions.items()}
    about["-1"] = {"msgs": unassigned, "acked_msgid": 0, "msgq_cnt": unassigned}
    return {"ts": int(ts_s * 1e6), "topics": {"orders": {"partitions": about}}}


def test_what_was_given_by_then_is_answered_when_every_partition_has_acknowledged_so_much() -> None:
    progress = DeliveryProgress()
    progress.feed(statistics(10, {"0": (100, 90), "1": (50, 50)}))
    assert progress.answered_until == 0
    progress.feed(statistics(12, {"0": (300, 99), "1": (60, 60)}))
    assert progress.answered_until == 0
    progress.feed(statistics(14, {"0": (500, 100), "1": (70, 50)}))
    assert progress.answered_until == 10
    progress.feed(statistics(16, {"0": (600, 500), "1": (80, 70)}))
    assert progress.answered_until == 14


def test_messages_whose_partition_is_not_known_yet_are_waited_for() -> None:
    progress = DeliveryProgress()
    progress.feed(statistics(10, {"0": (0, 0)}, unassigned=5))
    progress.feed(statistics(12, {"0": (5, 5)}))
    assert progress.answered_until == 0
    progress.feed(statistics(14, {"0": (9, 5)}))
    assert progress.answered_until == 12
