"""Transactions that hang: open in a log, and no coordinator will ever end them; readers of committed data stop there (KIP-664). Pure."""

from collections.abc import Iterable, Mapping
from typing import Final

from millstream.client.admin.transaction_admin import KnownTransaction, OpenInLog

LONGEST_S: Final = 900.0
"""Kafka's default of transaction.max.timeout.ms: no transaction that a coordinator knows is open for longer."""


def candidates(opened: Iterable[OpenInLog], *, now_ms: int, longer_than_ms: float) -> list[OpenInLog]:
    """Those to which nothing was written for so long that their coordinators have aborted them, if they have one."""
    return [one for one in opened if now_ms - one.last_timestamp_ms > longer_than_ms]


def hanging(opened: Iterable[OpenInLog], by_producer: Mapping[int, KnownTransaction]) -> list[OpenInLog]:
    """Those that belong to no transaction that is under way."""
    return [one for one in opened if not is_known(one, by_producer)]


def is_known(one: OpenInLog, by_producer: Mapping[int, KnownTransaction]) -> bool:
    """Whether a coordinator will end it: the transaction is under way there, and the partition is part of it."""
    known = by_producer.get(one.producer_id)
    return known is not None and known.open_ms(0) is not None and known.epoch >= one.epoch and one.place in known.partitions
