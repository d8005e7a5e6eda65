"""MirrorAppend sent by hand, and batches as a source would have them."""

from uuid import UUID

from millstream.address import Address
from millstream.client.codecs.mirror_append import MirrorAppend
from millstream.client.connection import Connection
from millstream.wire.mirror_append import MirrorPartition, MirrorTopic, PartitionMirrored
from tests.batches import encode_batch
from tests.brokers import Broker

SOURCE = "live/1/orders"


def own_connection(broker: Broker) -> Connection:
    """A connection of Millstream's own client."""
    return Connection(Address(*broker.address))


def mirrored_batch(*values: bytes, at: int, **fields: int) -> bytes:
    """A batch of the source, whose leader epoch there was 91."""
    return encode_batch(list(values), keys=None, timestamp=None, base_offset=at, leader_epoch=91, **fields)


def mirror_append(
    connection: Connection, topic_id: UUID, *batches: bytes, expected_end: int, source: str = SOURCE, is_last: bool = False
) -> PartitionMirrored:
    """Append to partition 0; its answer."""
    wanted = MirrorPartition(0, expected_end, memoryview(b"".join(batches)))
    request = MirrorAppend([MirrorTopic(topic_id.bytes, source, [wanted])], is_last=is_last)
    [topic] = connection.call(request)
    [answer] = topic.partitions
    return answer
