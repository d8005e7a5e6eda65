"""Which load a checkpoint belongs to: a small file in it, so that it is not used for another load, or another query, by mistake."""

import json
from typing import Final

from millstream.errors import UsageError
from millstream.lake.place import open_place
from millstream.spark.jobs.load_settings import LoadSettings

FILE_NAME: Final = "millstream-load.json"


def is_local(checkpoint: str) -> bool:
    """Whether the checkpoint is a directory of this machine; one elsewhere is Spark's business alone."""
    return "://" not in checkpoint or checkpoint.startswith("file:")


def check_checkpoint(settings: LoadSettings) -> None:
    """Raises `UsageError` if the checkpoint belongs to something else; from now on it belongs to this load."""
    place = open_place(settings.checkpoint)
    if place.exists(FILE_NAME):
        with place.files.open_input_stream(place.child(FILE_NAME)) as stream:
            known = json.loads(stream.read())
        _compare(settings, known)
    elif place.exists("metadata"):
        raise UsageError(f"The checkpoint {settings.checkpoint} belongs to another query, not to a load: give this load one of its own.")
    place.make_directory("")
    document = {"to": settings.to, "table": settings.table, "topics": list(settings.topics)}
    with place.files.open_output_stream(place.child(FILE_NAME)) as stream:
        stream.write(json.dumps(document).encode())


def _compare(settings: LoadSettings, known: dict[str, object]) -> None:
    if (known["to"], known["table"]) != (settings.to, settings.table):
        raise UsageError(
            f"The checkpoint {settings.checkpoint} belongs to the load into {known['table']} tables at {known['to']}: give this load a "
            "checkpoint of its own."
        )
    topics = known["topics"]
    gone = sorted(set(topics if isinstance(topics, list) else ()) - set(settings.topics))
    if gone:
        raise UsageError(
            f"The checkpoint {settings.checkpoint} has loaded {', '.join(gone)} too, which is not among the topics now: name it, or load "
            "the others with a new checkpoint, which goes on where their tables end."
        )
