"""Which job a checkpoint belongs to: `millstream-job.json` in it, so that another job is refused in a sentence.

Spark recognises some changes of a query by errors of its own, from deep in a micro-batch, and others not at all: results of two jobs would
be mixed. A filter, a watermark or a trigger may change; a window, a measure or a topic may not. Nor may a topic have been deleted and
created again: the offsets in the checkpoint would mean other messages.
"""

import json
from collections.abc import Mapping
from typing import Any, Final

from millstream.errors import UsageError
from millstream.spark.jobs.running.progress import local_directory, write_whole

FILE_NAME: Final = "millstream-job.json"
_TOPIC_IDS: Final = "topic ids"


def check_checkpoint(checkpoint: str, identity: Mapping[str, object], *, topic_ids: Mapping[str, str]) -> None:
    """Raise if the checkpoint is that of a job that differs, or of other topics; a new one is marked. Only directories of this machine are
    looked at."""
    directory = local_directory(checkpoint)
    if directory is None:
        return
    wanted = json.loads(json.dumps(identity))
    file = directory / FILE_NAME
    try:
        known = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        if (directory / "offsets").exists():
            raise UsageError(f"{checkpoint} is the checkpoint of another query: give this job one of its own") from None
        directory.mkdir(parents=True, exist_ok=True)
        write_whole(file, json.dumps({**wanted, _TOPIC_IDS: dict(topic_ids)}, indent=1))
        return
    except (OSError, ValueError) as error:
        raise UsageError(f"{file} cannot be read: {error}") from None
    _compare_topics(checkpoint, known.pop(_TOPIC_IDS, {}), topic_ids)
    if known != wanted:
        changed = ", ".join(f"{name} was {was} and is {now}" for name, was, now in _differences(known, wanted))
        raise UsageError(
            f"{checkpoint} is the checkpoint of a job that differs: {changed}. Give the changed job a checkpoint and an output of its own, "
            "or use `millstream pipeline replay`"
        )


def _compare_topics(checkpoint: str, known: Mapping[str, str], found: Mapping[str, str]) -> None:
    for topic, topic_id in known.items():
        if found.get(topic, topic_id) != topic_id:
            raise UsageError(
                f"the topic {topic} was deleted and created again since {checkpoint} was made: its offsets mean other messages now. Give "
                "the job a new checkpoint and an output of its own"
            )


def _differences(known: Any, wanted: Any, place: str = "") -> list[tuple[str, str, str]]:
    if isinstance(known, dict) and isinstance(wanted, dict):
        names = [*known, *(name for name in wanted if name not in known)]
        return [one for name in names for one in _differences(known.get(name), wanted.get(name), f"{place}.{name}" if place else name)]
    return [] if known == wanted else [(place, json.dumps(known), json.dumps(wanted))]
