"""The leader of one partition, as far as transactions are concerned: the real rules of the log, and a list instead of files."""

from collections.abc import Callable

from millstream.errors import KafkaError
from millstream.log.producer_state import ProducerState, TransactionalWrites
from millstream.log.transactions.marker import Marker, encode_marker
from millstream.transaction_errors import InvalidTxnState
from millstream.transactions.shard import MarkerBatch
from millstream.transactions.transaction import Producer
from millstream.wire.batch import TRANSACTIONAL, read_header
from millstream.wire.records import ProducerStamp, Record, encode_batch

Reply = Callable[[int], None]
AskCoordinator = Callable[[Reply], None]


class SimulatedPartition:
    """Appends batches of transactions that the coordinator knows of, and markers."""

    def __init__(self) -> None:
        self.producers = ProducerState()
        self.entries: list[tuple[int, str | None, bool]] = []
        """Producer id, and the tag of a transaction or, at its end, None and whether it was committed."""
        self._guards: dict[int, object] = {}
        """Producers whose first batch waits for the coordinator's word. A marker that comes meanwhile makes the word worthless."""

    def append(self, producer: Producer, sequence: int, tag: str, ask: AskCoordinator, reply: Reply) -> None:
        """Append a batch; the first of a transaction waits until the coordinator has said that it knows of it."""
        entry = self.producers.get(producer.producer_id)
        if entry is not None and entry.transaction_first_offset >= 0 and entry.epoch == producer.epoch:
            reply(self._append(producer, sequence, tag))
            return
        duplicate = self._check(producer, sequence)
        if duplicate is not None:
            reply(duplicate)
            return
        guard = self._guards.setdefault(producer.producer_id, object())

        def heard(code: int) -> None:
            if code == 0 and self._guards.get(producer.producer_id) is not guard:
                code = InvalidTxnState.code
            reply(code or self._append(producer, sequence, tag))

        ask(heard)

    def write_marker(self, markers: MarkerBatch) -> int:
        """End a transaction; the error code."""
        producer_id, epoch = markers.producer
        try:
            self.producers.check_marker(
                producer_id, epoch, coordinator_epoch=markers.coordinator_epoch, transaction_version=markers.transaction_version
            )
        except KafkaError as error:
            return error.code
        self._guards.pop(producer_id, None)
        batch = encode_marker(Marker(markers.is_commit, markers.coordinator_epoch), ProducerStamp(producer_id, epoch), timestamp=1)
        self.producers.learn(read_header(batch), batch, base_offset=len(self.entries))
        self.entries.append((producer_id, None, markers.is_commit))
        return 0

    def outcomes(self) -> dict[str, bool]:
        """Per tag whether a reader of committed data sees its batches; those that are still open are left out."""
        is_open: dict[int, list[str]] = {}
        outcomes: dict[str, bool] = {}
        for producer_id, tag, is_commit in self.entries:
            if tag is not None:
                is_open.setdefault(producer_id, []).append(tag)
                continue
            for ended in is_open.pop(producer_id, ()):
                assert outcomes.setdefault(ended, is_commit) == is_commit, f"{ended} was committed in parts"
        return outcomes

    def _check(self, producer: Producer, sequence: int) -> int | None:
        """The code for what needs no append: 0 for a duplicate; None if it has to be appended."""
        batch = _batch(producer, sequence)
        try:
            return None if self.producers.check(read_header(batch), TransactionalWrites.VERIFIED) is None else 0
        except KafkaError as error:
            return error.code

    def _append(self, producer: Producer, sequence: int, tag: str) -> int:
        code = self._check(producer, sequence)
        if code is None:
            batch = _batch(producer, sequence)
            self.producers.learn(read_header(batch), batch, base_offset=len(self.entries))
            self.entries.append((producer.producer_id, tag, False))
            code = 0
        return code


def _batch(producer: Producer, sequence: int) -> bytes:
    return encode_batch([Record(0, 1, None, b"x")], producer=ProducerStamp(*producer, sequence), flags=TRANSACTIONAL)
