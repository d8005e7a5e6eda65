"""How an error of one topic or partition becomes the fields of an answer: the one place that knows."""

import logging

from millstream.errors import (
    CorruptMessage,
    FencedLeaderEpoch,
    KafkaError,
    MessageTooLarge,
    NotLeaderOrFollower,
    OffsetOutOfRange,
    RecordListTooLarge,
    RequestTimedOut,
    StorageError,
    UnknownLeaderEpoch,
    UnknownServerError,
    UnknownTopicOrPartition,
)
from millstream.zookeeper.errors import ConnectionLost, SessionExpired

logger = logging.getLogger(__name__)

_EXPECTED = (
    CorruptMessage,
    FencedLeaderEpoch,
    MessageTooLarge,
    NotLeaderOrFollower,
    OffsetOutOfRange,
    RecordListTooLarge,
    StorageError,
    UnknownLeaderEpoch,
    UnknownTopicOrPartition,
)


def as_kafka_error(error: Exception) -> KafkaError:
    """The error as it may be shown to a client, who tries again if it may pass; one without a code is a mistake of ours and is logged."""
    if isinstance(error, KafkaError):
        return error
    if isinstance(error, (ConnectionLost, SessionExpired)):
        return RequestTimedOut(f"the coordination is away for now, and it is not known whether this was done: {error}")
    logger.error("unexpected error", exc_info=error)
    return UnknownServerError("the broker failed on this; its log says why")


def is_unexpected(error: KafkaError) -> bool:
    """Whether Kafka counts it among the failed requests of a topic: not what clients cause or clear up by themselves."""
    return not isinstance(error, _EXPECTED)


def error_fields(error: KafkaError | None) -> dict[str, object]:
    """`error_code` and `error_message`, as most answers name them."""
    if error is None:
        return {"error_code": 0, "error_message": None}
    return {"error_code": error.code, "error_message": str(error)}
