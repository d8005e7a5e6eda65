"""A broker's place in the tree: the cluster it belongs to, its address, and who is controller."""

import base64
import uuid

from penstock.coordination import paths
from penstock.coordination.cluster_view import BrokerState
from penstock.coordination.errors import NodeExists
from penstock.coordination.interface import Coordination


async def prepare_tree(coordination: Coordination, *, cluster_id: str | None) -> str:
    """Make the persistent parents and the cluster id, whoever comes first; returns the cluster id."""
    for path in paths.PERSISTENT_PARENTS:
        await _create_if_missing(coordination, path, b"")
    await _create_if_missing(coordination, paths.CLUSTER_ID, (cluster_id or new_cluster_id()).encode())
    data, _ = await coordination.get(paths.CLUSTER_ID)
    return data.decode()


async def register(coordination: Coordination, broker: BrokerState) -> int:
    """Announce a broker for as long as its session lives; returns its epoch."""
    path = paths.broker(broker.node_id)
    await coordination.create(path, broker.encode(), ephemeral=True)
    stat = await coordination.exists(path)
    assert stat is not None
    return stat.czxid


def new_cluster_id() -> str:
    """A random id in the form of Kafka's: 22 characters."""
    return base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")


async def _create_if_missing(coordination: Coordination, path: str, data: bytes) -> None:
    if await coordination.exists(path) is not None:
        return
    try:
        await coordination.create(path, data)
    except NodeExists:
        return
