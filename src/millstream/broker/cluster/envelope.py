"""A request of a client inside a request of a broker to the controller: Envelope (58, KIP-590).

    request_data          the client's request as it came, header and body
    request_principal     JSON {"broker_id": ..., "broker_epoch": ..., "listener": ..., "principal": ..., "software_name": ...,
                          "software_version": ...}: the broker that was asked, and who its client is
    client_host_address   the client's address, 4 or 16 bytes; empty if it is none of these

What Kafka puts into the principal is up to its principal builder; only brokers of one cluster read it. The broker epoch is what makes an
envelope that of a registered broker: there is nothing better before there is TLS or SASL between brokers.
"""

import json
import socket
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from millstream.broker.network.connection import Connection
from millstream.broker.network.session import Session
from millstream.buffer import Buffer
from millstream.coordination.cluster_view import ClusterView
from millstream.json_object import JsonObject
from millstream.replication_errors import BrokerIdNotRegistered, PrincipalDeserializationFailure, StaleBrokerEpoch
from millstream.wire import messages
from millstream.wire.api import ApiKey

if TYPE_CHECKING:
    from millstream.wire.responses.envelope import EnvelopeResponse

_HIGHEST_EPOCH = 2**63 - 1
_IPV4_BYTES = 4


class Sender(NamedTuple):
    """The broker that passes a request on, in one of its lives."""

    broker_id: int
    broker_epoch: int

    def check_registered(self, view: ClusterView) -> None:
        """Raise unless this is a broker of the cluster."""
        broker = view.brokers.get(self.broker_id)
        if broker is None:
            raise BrokerIdNotRegistered(f"broker {self.broker_id} is not registered")
        if broker.epoch != self.broker_epoch:
            raise StaleBrokerEpoch(f"broker {self.broker_id} is registered with the epoch {broker.epoch}, not {self.broker_epoch}")


class EnvelopeAnswer(NamedTuple):
    """What comes back: the answer to the client's request, header and body, or an error of the envelope itself."""

    error_code: int
    data: bytes


class Envelope:
    """What is sent; a request of `client.request`."""

    api_key = ApiKey.ENVELOPE
    versions = (0, 0)
    has_answer = True

    def __init__(self, frame: bytes, *, client: Session, connection: Connection, broker_id: int, broker_epoch: Callable[[], int]) -> None:
        self.frame = frame
        self.client = client
        self.connection = connection
        """Where the request came from."""
        self._broker_id = broker_id
        self._broker_epoch = broker_epoch

    def encode(self, version: int) -> Sequence[Buffer]:
        """The body, with the broker epoch of now: it may be sent more than once."""
        fields = {
            "request_data": self.frame,
            "request_principal": encode_principal(Sender(self._broker_id, self._broker_epoch()), self.client),
            "client_host_address": _encode_host(self.client.host),
        }
        return (messages.encode_request_body(self.api_key, version, request=fields),)

    def decode(self, version: int, body: memoryview) -> "EnvelopeAnswer":
        """What came back."""
        answer: EnvelopeResponse = messages.decode_response(self.api_key, version, body=body)
        return EnvelopeAnswer(answer.error_code, answer.response_data or b"")


def encode_principal(sender: Sender, client: Session) -> bytes:
    """Who sends the envelope, and for whom."""
    described = {
        "listener": client.listener,
        "principal": client.principal,
        "software_name": client.software_name,
        "software_version": client.software_version,
    }
    return json.dumps({**sender._asdict(), **described}).encode()


def decode_principal(principal: bytes | None, *, host: bytes) -> tuple[Sender, Session]:
    """Who sends the envelope, and for whom; PrincipalDeserializationFailure if it does not say so."""
    try:
        fields = JsonObject.parse(principal or b"")
        # -1: not registered for now, which is another error than one that makes no sense.
        sender = Sender(fields.integer("broker_id"), fields.integer("broker_epoch", lowest=-1, highest=_HIGHEST_EPOCH))
        client = Session(
            fields.text("listener"),
            _decode_host(host),
            principal=fields.text("principal"),
            software_name=fields.text("software_name"),
            software_version=fields.text("software_version"),
        )
    except ValueError as error:
        raise PrincipalDeserializationFailure(f"the envelope does not say whose it is: {error}") from None
    return sender, client


def _encode_host(host: str) -> bytes:
    host = host.strip("[]")
    try:
        return socket.inet_pton(socket.AF_INET6 if ":" in host else socket.AF_INET, host)
    except OSError:
        return b""


def _decode_host(packed: bytes) -> str:
    return socket.inet_ntop(socket.AF_INET6 if len(packed) > _IPV4_BYTES else socket.AF_INET, packed) if packed else ""
