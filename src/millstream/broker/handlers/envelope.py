"""Envelope (58): requests that other brokers pass on to the controller (KIP-590).

Version 0. Only from brokers that are registered, by their broker epoch, and only for what needs the controller. If this broker is not the
controller the whole answer says so (NOT_CONTROLLER), and the broker that was asked looks for the one who is.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from millstream.broker.cluster.forwarding import CarryOut
from millstream.broker.failures import as_kafka_error
from millstream.broker.network.api import Fields, Later, Request, api
from millstream.coordination.cluster_view import ClusterView
from millstream.errors import InvalidRequest, KafkaError, MalformedFrame, NotController
from millstream.wire.api import ApiKey

if TYPE_CHECKING:
    from millstream.wire.requests.envelope import EnvelopeRequest


class EnvelopeFamily:
    """Carries out what is in envelopes."""

    def __init__(self, view: Callable[[], ClusterView], carry_out: CarryOut) -> None:
        self._view = view
        self._carry_out = carry_out

    @api(ApiKey.ENVELOPE, 0, 0)
    def envelope(self, request: Request) -> Later:
        """Answer the request inside, for the client of the broker that passed it on."""
        return self._open(request, request.decode())

    async def _open(self, request: Request, message: "EnvelopeRequest") -> Fields:
        from millstream.broker.cluster.envelope import decode_principal  # a broker without others never needs it

        try:
            sender, client = decode_principal(message.request_principal, host=message.client_host_address)
            sender.check_registered(self._view())
            carried_out = await self._carry_out(request.connection, client, message.request_data)
        except MalformedFrame as error:
            # Of the request inside: it ends the connection of that client, not that of the broker, which others use too.
            return _refusal(InvalidRequest(str(error)))
        except Exception as error:
            return _refusal(as_kafka_error(error))
        if carried_out.is_refused:
            return _refusal(NotController())
        return {"error_code": 0, "response_data": carried_out.data}


def _refusal(error: KafkaError) -> Fields:
    return {"error_code": error.code, "response_data": None}
