"""Small Produce requests of several clients that came in one turn of the loop are appended together.

Clients that send one request and wait for its answer cannot be helped by runs (`produce_run`), but where many of them are busy many of
their sockets are ready at once. One request of each connection is kept until the others have been received, or until there are enough, and
the batches for a partition are then written by one call. Each is checked, and each client answered, as if it had come alone.

A request is kept for a fraction of a millisecond at most, and never beyond the turn. Where only one socket is ready nothing is kept. The
batch is copied, because the next connection receives into the same buffer: so this is for small ones.
"""

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from millstream.broker.handlers.produce.produce_run import ProduceShape
from millstream.broker.network.connection import Connection

MAX_REQUESTS: Final = 64
"""Kept at a time: whoever came first waits for as long as it takes to receive the others."""
SMALL_BYTES: Final = 8 * 1024
"""What is copied in a microsecond."""


class TurnRequest(NamedTuple):
    """A request that waits for the end of the turn."""

    connection: Connection
    shape: ProduceShape
    correlation_id: int
    partition: int
    batch: memoryview


AppendTogether = Callable[[Sequence[TurnRequest]], None]
"""Appends and answers requests for one partition, with the same acks and version; it does not raise."""


class ProduceTurn:
    """The requests of this turn of the loop."""

    def __init__(self, append: AppendTogether) -> None:
        self._append = append
        self._requests: list[TurnRequest] = []

    def keep(self, connection: Connection, shape: ProduceShape, correlation_id: int, place: tuple[int, memoryview]) -> bool:
        """Keep a request until the end of the turn, if it is a small one and others are ready; `place` is its partition and its batch."""
        partition, batch = place
        if len(batch) > SMALL_BYTES or not connection.is_turn_shared() or shape.asked.transactional_id is not None:
            return False
        requests = self._requests
        if not requests:
            connection.call_at_end_of_turn(self.finish)
        requests.append(TurnRequest(connection, shape, correlation_id, partition, memoryview(bytes(batch))))
        if len(requests) >= MAX_REQUESTS:
            self.finish()
        return True

    def finish(self) -> None:
        """Append and answer what is kept."""
        requests, self._requests = self._requests, []
        groups: dict[tuple[object, int, int, int], list[TurnRequest]] = {}
        for request in requests:
            asked = request.shape.asked
            groups.setdefault((request.shape.key, request.partition, asked.acks, asked.version), []).append(request)
        for group in groups.values():
            self._append(group)
        for request in requests:
            request.connection.send_answered()
