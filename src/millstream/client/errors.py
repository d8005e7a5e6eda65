"""What can go wrong for a client that has nothing to do with a code of Kafka's, and how a code becomes an exception.

    MillstreamError
    ├── UsageError                 an address, a name or a setting that cannot be
    │   └── SecurityOptionError    an option about TLS or SASL
    ├── KafkaError                 the broker answered with a code: `kafka_error` makes the exception (see `millstream.errors`)
    └── ClientError
        ├── AuthenticationFailed   the broker refused who we are, or we refused who it is; trying again does not help
        ├── DeliveryFailed         records that a producer took were not written
        ├── BrokerUnavailable      no broker there, or the connection ended; whether a request was carried out is not known
        │   └── AnswerTimedOut     the broker is there and did not answer in time; the connection is closed
        └── what the paper's producer and consumer add (`millstream.paper.errors`)

Every message says what was wrong, where, and what to do.
"""

from functools import cache
from os import strerror
from typing import Final

from millstream.address import Address
from millstream.errors import KafkaError, MalformedFrame, MillstreamError, RetriableError, UsageError


class ClientError(MillstreamError):
    """A client could not do what it was asked to do."""


class SecurityOptionError(UsageError):
    """An option about TLS or SASL that cannot be obeyed: its name and what is wrong with it, never its value if that is a secret."""

    def __init__(self, option: str, problem: str) -> None:
        super().__init__(f"{option}: {problem}")
        self.option = option
        self.problem = problem


class AuthenticationFailed(ClientError):
    """A login or a certificate was refused, by the broker or by this client. It stays so until a person changes something."""


class DeliveryFailed(ClientError):
    """What a producer took was not written. It is raised by a later call, because sending does not wait."""


class BrokerUnavailable(ClientError):
    """No broker answers, or one that did has gone away; a request under way may or may not have been carried out."""


class AnswerTimedOut(BrokerUnavailable):
    """A broker did not answer in time. The connection is closed: a late answer would be taken for that of the next request."""


def unreachable(address: Address, error: OSError | UnicodeError) -> BrokerUnavailable:
    """Why there is no connection."""
    reason = getattr(error, "strerror", None) or str(error)
    if isinstance(error, TimeoutError):
        reason = "no answer in time"
    elif isinstance(error, ConnectionError) and error.errno:
        reason = strerror(error.errno)  # asyncio says which call failed instead
    return BrokerUnavailable(f"no broker answers at {address}: {reason.lower()}; is it running, and is the address right?")


def broken(address: Address, error: Exception | None, hint: str = "") -> MillstreamError:
    """Why a connection ended, for whoever waits for an answer; None is an end by the broker. The hint says what may be behind an end."""
    if error is None:
        return BrokerUnavailable(f"the broker at {address} closed the connection{hint}")
    if isinstance(error, TimeoutError):
        return AnswerTimedOut(f"the broker at {address} did not answer in time; the connection is closed")
    if isinstance(error, MalformedFrame):
        from millstream.client.connect_reason import HTTP, is_http  # a broker starts sooner without it

        reason = HTTP if is_http(str(error)) else f"it does not speak Kafka's protocol: {error}"
        return BrokerUnavailable(f"what answers at {address} is no broker: {reason}")
    if isinstance(error, MillstreamError):
        return error
    if alert := _tls_alert(error):
        return AuthenticationFailed(
            f"the broker at {address} refused this client's TLS ({alert}): "
            "does it want a certificate (ssl.certificate.location and ssl.key.location)?"
        )
    return BrokerUnavailable(f"the connection to {address} broke: {getattr(error, 'strerror', None) or error}{hint}")


def _tls_alert(error: Exception) -> str:
    """What an error of Python's `ssl` says of an alert that the broker sent; a refused certificate is one after the handshake (TLS 1.3)."""
    reason = getattr(error, "reason", None)
    return reason.partition("_ALERT_")[2].replace("_", " ").lower() if isinstance(reason, str) else ""


def kafka_error(code: int, message: str = "") -> KafkaError:
    """The exception for a code of Kafka's; one that has no class here keeps its number in the text."""
    kind = _errors_by_code().get(code)
    if kind is None:
        error = KafkaError(f"{message} (error code {code})" if message else f"the broker answered with error code {code}")
        error.code = code  # type: ignore[misc]  # the class of codes that have none
        return error
    return kind(message or (kind.__doc__ or kind.__name__).rstrip("."))


def is_retriable(code: int) -> bool:
    """Whether the same request may succeed later, at the same broker or at the partition's new leader."""
    return code in _RETRIABLE_WITHOUT_A_CLASS or issubclass(_errors_by_code().get(code, KafkaError), RetriableError)


def _all_subclasses(base: type[KafkaError]) -> list[type[KafkaError]]:
    return [found for child in base.__subclasses__() for found in (child, *_all_subclasses(child))]


@cache
def _errors_by_code() -> dict[int, type[KafkaError]]:
    import millstream.transaction_errors  # noqa: F401 -- so that its classes are found; a broker without trouble does not need them

    return {kind.code: kind for kind in reversed(_all_subclasses(KafkaError)) if kind is not RetriableError}


_REPLICA_NOT_AVAILABLE: Final = 9
_NETWORK_EXCEPTION: Final = 13
_RETRIABLE_WITHOUT_A_CLASS: Final = frozenset({_REPLICA_NOT_AVAILABLE, _NETWORK_EXCEPTION})
