"""Whether a micro-batch continues a table: the rule that makes every message a row once, for whichever kind of table.

A table knows the offset that comes next in each partition, and which topic of its name it was loaded from. A micro-batch goes in only if it
begins exactly there. What else comes is another load, or a checkpoint or a table that was set back, or a topic that was made anew.
"""

from collections.abc import Mapping

from millstream.lake.errors import LoadConflict
from millstream.lake.load_batch import LoadBatch


def check_continues(batch: LoadBatch, address: str, *, positions: Mapping[int, int], is_same_topic: bool) -> None:
    """Raises `LoadConflict` unless the micro-batch begins where the table ends.

    `positions` are those of the micro-batch's partitions that the table has rows of; `is_same_topic` says whether what the table has, of
    whichever partition, is of this topic, as far as that is known.
    """
    if not is_same_topic:
        raise LoadConflict(
            f"the topic {batch.topic} is not the one that the table {address} was loaded from: it was deleted and created again, and its "
            "offsets begin anew, or the table is of another topic. Load it to another place (--to) with a new checkpoint."
        )
    for partition, start, end in batch.ranges:
        known = positions.get(partition)
        if known is not None and known != start:
            problem = "has them already" if known > start else f"ends at offset {known}, so those between would be missing"
            raise LoadConflict(
                f"the offsets {start} to {end} of {batch.topic}-{partition} do not continue the table {address}, which {problem}. Another "
                "load has written to it, or the table or the checkpoint was set back. Use the checkpoint that belongs to the table; a new, "
                "empty one goes on where the table ends."
            )


def check_repeats(batch: LoadBatch, address: str, *, positions: Mapping[int, int]) -> None:
    """Raises `LoadConflict` if a micro-batch whose number the table has is not the one that it has: it goes further than the table.

    A checkpoint that was set back plans old numbers anew, with messages that came since: left out as repetitions, these would be missing.
    """
    for partition, start, end in batch.ranges:
        known = positions.get(partition)
        if known is None or end > known:
            raise LoadConflict(
                f"the table {address} has micro-batch {batch.batch_id} of this load already, and not the offsets {start} to {end} of "
                f"{batch.topic}-{partition}: the checkpoint was set back. Use the one that belongs to the table; a new, empty one goes on "
                "where the table ends."
            )


def is_same(topic: object, known: object) -> bool:
    """Whether two that name a topic name the same; one that is not known may be any."""
    return None in {topic, known} or topic == known
