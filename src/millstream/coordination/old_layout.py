"""Topics as they were written before each partition had a znode: all partitions inside the znode of their topic.

    /brokers/topics/<topic>   {"topic_id": ..., "configs": {...}, "partitions": [{"replicas": [...], "leader": ..., "leader_epoch": ...,
                               "in_sync_replicas": [...], "eligible_leaders": [...]}, ...]}

They are read once, by the controller that converts them (`cluster.layout_conversion`); until then they are unreadable to brokers, and their
logs are left alone. Both modules can be deleted when such data directories need not be read any more.
"""

import json

from millstream.coordination.partition_state import NO_LEADER, PartitionState
from millstream.coordination.topic_header import COMPLETE, TopicHeader
from millstream.json_object import JsonObject


def is_in_old_layout(data: bytes) -> bool:
    """Whether the znode of a topic holds its partitions."""
    try:
        fields = json.loads(data)
    except (ValueError, RecursionError):
        return False
    return isinstance(fields, dict) and isinstance(fields.get("partitions"), list) and "phase" not in fields


def decode_old_topic(name: str, data: bytes) -> tuple[TopicHeader, tuple[PartitionState, ...]]:
    """The topic in such a znode; ValueError if that makes no sense."""
    fields = JsonObject.parse(data)
    partitions = tuple(_partition(partition) for partition in fields.objects("partitions"))
    new = {**json.loads(data), "partitions": len(partitions), "phase": COMPLETE}
    return TopicHeader.decode(name, json.dumps(new).encode()), partitions


def _partition(fields: JsonObject) -> PartitionState:
    """No follower copied anything then, so that only the leader has all that is committed, whatever the znode says."""
    replicas = fields.integers("replicas")
    leader = fields.integer("leader", lowest=NO_LEADER)
    if not replicas or leader not in {*replicas, NO_LEADER}:
        raise ValueError(f"a partition with the replicas {list(replicas)} is led by {leader}")
    in_sync = replicas[:1] if leader == NO_LEADER else (leader,)
    return PartitionState(replicas, leader, fields.integer("leader_epoch"), in_sync)
