"""Transactions in the log of a test, written as its leader writes them."""

from millstream.log.log import Log
from millstream.log.transactions.marker import Marker
from millstream.log.transactions.marker_append import append_marker
from millstream.wire.batch import TRANSACTIONAL
from millstream.wire.records import ProducerStamp, Record, encode_batch
from tests.unit.log.conftest import NOW_MS


class Writer:
    """A transactional producer that writes to one log, with the right sequences."""

    def __init__(self, log: Log, producer_id: int, *, epoch: int = 0) -> None:
        self.log = log
        self.producer_id = producer_id
        self.epoch = epoch
        self.sequence = 0

    def send(self, *values: bytes, key: bytes | None = None, flags: int = TRANSACTIONAL) -> int:
        """Append one batch in the transaction that is open, or opens; its base offset."""
        records = [Record(number, NOW_MS, key, value) for number, value in enumerate(values)]
        batch = encode_batch(records, producer=ProducerStamp(self.producer_id, self.epoch, self.sequence), flags=flags)
        self.sequence += len(values)
        return self.log.append_as_leader(batch, leader_epoch=0, now_ms=NOW_MS, is_own=True).base_offset

    def end(self, *, is_commit: bool, coordinator_epoch: int = 0, transaction_version: int = 1) -> int:
        """The coordinator's marker; its offset. From version 2 on it comes with the next epoch."""
        if transaction_version >= 2:
            self.epoch += 1
            self.sequence = 0
        return append_marker(
            self.log,
            Marker(is_commit, coordinator_epoch),
            ProducerStamp(self.producer_id, self.epoch),
            transaction_version=transaction_version,
            leader_epoch=0,
            now_ms=NOW_MS,
        )

    def commit(self) -> int:
        """End the transaction; the offset of its marker."""
        return self.end(is_commit=True)

    def abort(self) -> int:
        """End the transaction; the offset of its marker."""
        return self.end(is_commit=False)


def aborted_files(log: Log) -> dict[str, bytes]:
    """The indexes of aborted transactions, as they lie on the disk."""
    return {path.name: path.read_bytes() for path in sorted(log.path.glob("*.txnindex"))}
