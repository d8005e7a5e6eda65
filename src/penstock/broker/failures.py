"""How an error of one topic or partition becomes the fields of an answer: the one place that knows."""

import logging

from penstock.errors import KafkaError, UnknownServerError

logger = logging.getLogger(__name__)


def as_kafka_error(error: Exception) -> KafkaError:
    """The error as it may be shown to a client; one without a code is a mistake of ours and goes into the log."""
    if isinstance(error, KafkaError):
        return error
    logger.error("unexpected error", exc_info=error)
    return UnknownServerError("the broker failed on this; its log says why")


def error_fields(error: KafkaError | None) -> dict[str, object]:
    """`error_code` and `error_message`, as most answers name them."""
    if error is None:
        return {"error_code": 0, "error_message": None}
    return {"error_code": error.code, "error_message": str(error)}
