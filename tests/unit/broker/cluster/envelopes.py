"""Envelopes as the controller receives them."""

from typing import cast

from millstream.broker.cluster.envelope import Envelope
from millstream.broker.network.connection import Connection
from millstream.broker.network.session import Session
from millstream.wire.api import ApiKey
from millstream.wire.messages import decode_request
from millstream.wire.requests.envelope import EnvelopeRequest


def envelope_from(client: Session, *, broker_id: int, broker_epoch: int, frame: bytes = b"") -> EnvelopeRequest:
    """What a broker sends for a client."""
    envelope = Envelope(frame, client=client, connection=cast(Connection, None), broker_id=broker_id, broker_epoch=lambda: broker_epoch)
    (body,) = envelope.encode(0)
    return cast(EnvelopeRequest, decode_request(ApiKey.ENVELOPE, 0, body=body))
