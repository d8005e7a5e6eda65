"""Frames of transactional ids, built by hand, in versions without flexible fields: FindCoordinator 1, InitProducerId 0."""

import struct

from bench.case import BenchError
from bench.group_wire import FIND_COORDINATOR, NOT_YET
from bench.raw import request, string

INIT_PRODUCER_ID = 22
CONCURRENT_TRANSACTIONS = 51
TIMEOUT_MS = 60_000


def find_coordinator_request(transactional_id: str) -> bytes:
    """FindCoordinator 1; asking makes the broker create the topic of the transactions' state."""
    return request(FIND_COORDINATOR, 1, string(transactional_id) + b"\x01")


def init_producer_request(transactional_id: str) -> bytes:
    """InitProducerId 0."""
    return request(INIT_PRODUCER_ID, 0, string(transactional_id) + struct.pack(">i", TIMEOUT_MS))


def initialised_epoch(answer: bytes) -> int | None:
    """The epoch in an answer of InitProducerId; None if it has to be asked again."""
    _, _, error, _, epoch = struct.unpack_from(">iihqh", answer)
    if error in (*NOT_YET, CONCURRENT_TRANSACTIONS):
        return None
    if error:
        raise BenchError(f"InitProducerId answered error {error}")
    return int(epoch)
