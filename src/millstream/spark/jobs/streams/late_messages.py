"""How many messages came too late for a window, one by one.

Spark counts what it leaves out after it has added up: all late messages of one window and key in one micro-batch are one to it. So the
query counts how many messages there are for each end of a window (`count_ends`), and who follows the query adds up those whose window was
over when the micro-batch began. That moment is the watermark of the micro-batch before, in Spark's checkpoint.
"""

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from millstream.spark.jobs.running.progress import local_directory

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

ENDS: Final = "ends"
_MOST_ENDS: Final = 10_000
"""Different ends of windows in a micro-batch that are counted exactly."""


def count_ends(events: "DataFrame", time: str, *, step_ms: int) -> "DataFrame":
    """The events; meanwhile they are counted by the end of the oldest window that each is in, in ms."""
    from pyspark.sql import functions as f

    milliseconds = f.unix_millis(f.col(time))
    end = milliseconds - f.pmod(milliseconds, f.lit(step_ms)) + f.lit(step_ms)
    return events.observe(f"windows-{ENDS}", f.call_function("approx_top_k", end, f.lit(_MOST_ENDS), f.lit(_MOST_ENDS)).alias(ENDS))


def late_messages(reported: Mapping[str, Any], checkpoint: str) -> int | None:
    """How many messages of this micro-batch, as Spark reports it, were too late for a window; None if they were not counted so."""
    ends = [metrics[ENDS] for metrics in (reported.get("observedMetrics") or {}).values() if ENDS in metrics]
    watermark_ms = watermark_before(checkpoint, int(reported["batchId"])) if ends else None
    if watermark_ms is None:
        return None
    return sum(int(one["count"]) for some in ends for one in some or () if one["item"] is not None and int(one["item"]) <= watermark_ms)


def watermark_before(checkpoint: str, batch_id: int) -> int | None:
    """The watermark of the micro-batch before, which decides what is late; None if it is not known here."""
    if batch_id == 0:
        return 0
    directory = local_directory(checkpoint)
    if directory is None:
        return None
    try:
        _version, metadata, *_offsets = (directory / "offsets" / str(batch_id - 1)).read_text(encoding="utf-8").splitlines()
        return int(json.loads(metadata)["batchWatermarkMs"])
    except (OSError, ValueError, KeyError):
        return None
