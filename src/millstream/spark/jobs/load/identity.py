"""Which load a checkpoint belongs to: a small file in it, so that it is not used for another load, or another query, by mistake."""

import json
from typing import Final

from millstream.errors import UsageError
from millstream.spark.jobs.load.settings import LoadSettings
from millstream.spark.jobs.running.progress import local_directory, write_whole

FILE_NAME: Final = "millstream-load.json"


def check_checkpoint(settings: LoadSettings) -> None:
    """Raises `UsageError` if the checkpoint belongs to something else; from now on it belongs to this load. One that is not a directory
    of this machine is Spark's business alone."""
    directory = local_directory(settings.checkpoint)
    if directory is None:
        return
    file = directory / FILE_NAME
    try:
        if file.exists():
            _compare(settings, json.loads(file.read_text(encoding="utf-8")))
        elif (directory / "metadata").exists():
            raise UsageError(
                f"The checkpoint {settings.checkpoint} belongs to another query, not to a load: give this load one of its own."
            )
        directory.mkdir(parents=True, exist_ok=True)
        write_whole(file, json.dumps({"to": settings.to, "table": settings.table, "topics": list(settings.topics)}))
    except OSError as error:
        raise UsageError(f"The checkpoint {settings.checkpoint} cannot be a directory to write to: {error.strerror}.") from None


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
