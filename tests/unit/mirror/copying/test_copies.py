from uuid import UUID

from millstream.mirror.copying.copied_batches import CopiedBatches
from millstream.mirror.copying.copies import Copies
from millstream.mirror.copying.mirrored_topic import MirroredTopic
from millstream.mirror.copying.partition_copy import PartitionCopy
from millstream.mirror.mirror_source import MirrorSource
from millstream.topic_partition import TopicPartition


async def test_progress_is_that_of_the_partition_that_is_furthest_behind() -> None:
    copies = Copies()
    topic = copies.topics["orders"] = MirroredTopic(MirrorSource("live", UUID(int=1), "orders"), UUID(int=2), is_compacted=False)
    assert copies.progress_ms(9_000) == 9_000
    for index, (end, timestamp) in enumerate([(10, 5_000), (20, 4_000), (20, 6_000)]):
        copy = topic.copies[index] = PartitionCopy(TopicPartition("orders", index))
        copy.begin(target_end=0, source_start=0, source_end=end, last_epoch=-1)
        copy.fetched([CopiedBatches(memoryview(bytes(9)), ((0, 10),), (), 0, timestamp)], high_watermark=end, log_start=0)
        assert copies.held_bytes == 9
        copy.confirmed(copy.take())
    assert copies.progress_ms(9_000) == 4_000
    topic.copies[1].stop("other data")
    assert copies.progress_ms(9_000) == 6_000
    topic.copies[3] = PartitionCopy(TopicPartition("orders", 3))
    assert copies.progress_ms(9_000) is None
