"""Before a broker stops it hands over what it leads, while it goes on serving: clients find another leader, not an error.

It asks the controller (BrokerHeartbeat with the wish to shut down) until that has moved the leaders and let go of the broker in the in-sync
sets, and then waits until its own view says so. Partitions that no other broker can lead stay with it. A broker that is alone has nobody
to hand over to, and one whose controller does not answer stops all the same, after a while.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Protocol

from millstream.broker.cluster.controller_channel import UntilView
from millstream.client.codecs.request import MessageRequest, Request
from millstream.coordination.cluster_view import ClusterView
from millstream.errors import MillstreamError
from millstream.wire.api import ApiKey

if TYPE_CHECKING:
    from millstream.wire.responses.broker_heartbeat import BrokerHeartbeatResponse

logger = logging.getLogger(__name__)

HAND_OVER_S: Final = 10.0
ANSWER_S: Final = 5.0
RETRY_S: Final = 0.2


class Channel(Protocol):
    """The way to the controller (`broker.cluster.controller_channel`)."""

    async def ask(self, request: "Request[BrokerHeartbeatResponse]", *, timeout_s: float) -> "BrokerHeartbeatResponse":
        """The controller's answer."""


async def hand_over_leadership(
    channel: Channel, *, node_id: int, broker_epoch: Callable[[], int], view: Callable[[], ClusterView], until: UntilView
) -> bool:
    """Let others lead; False if that was not possible in time, or there are no others."""
    if not view().brokers.keys() - {node_id}:
        return False
    try:
        async with asyncio.timeout(HAND_OVER_S):
            while not await _may_stop(channel, node_id=node_id, broker_epoch=broker_epoch()):  # noqa: ASYNC110 -- asks again after a pause
                await asyncio.sleep(RETRY_S)
            return await until(lambda seen: not _could_others_lead(seen, node_id), timeout_ms=int(HAND_OVER_S * 1000))
    except TimeoutError:
        logger.warning("the leadership of this broker was not handed over within %g s; it stops all the same", HAND_OVER_S)
        return False


async def _may_stop(channel: Channel, *, node_id: int, broker_epoch: int) -> bool:
    fields = {"broker_id": node_id, "broker_epoch": broker_epoch, "current_metadata_offset": 0, "want_fence": False, "want_shut_down": True}
    request: MessageRequest[BrokerHeartbeatResponse] = MessageRequest(ApiKey.BROKER_HEARTBEAT, fields)
    try:
        answer = await channel.ask(request, timeout_s=ANSWER_S)
    except MillstreamError as error:
        logger.info("the controller does not answer a broker that wants to stop: %s", error)
        return False
    if answer.error_code:
        logger.info("the controller does not let this broker go yet, error code %d", answer.error_code)
    return answer.should_shut_down


def _could_others_lead(view: ClusterView, node_id: int) -> bool:
    return any(state.leader == node_id and len(state.in_sync_replicas) > 1 for topic in view.topics.values() for state in topic.partitions)
