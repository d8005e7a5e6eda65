"""How a job goes, for who looks from outside: a file beside its checkpoint, `millstream-progress.json`, written whole and renamed.

`millstream pipeline status` reads it. A job whose process is gone and that has not said how it ended was killed.
"""

import json
import os
import socket
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Final, Literal, Self

from millstream.errors import CommandFailed
from millstream.spark.jobs.running.batch_progress import BatchProgress

FILE_NAME: Final = "millstream-progress.json"
State = Literal["running", "done", "stopped", "failed", "killed"]


@dataclass(frozen=True, slots=True)
class JobProgress:
    """A run of a job: who runs it, the last micro-batch, and the sums since its start."""

    name: str
    started_ms: int
    at_ms: int
    state: State = "running"
    host: str = field(default_factory=socket.gethostname)
    pid: int = field(default_factory=os.getpid)
    brokers: str | None = None
    group: str | None = None
    """The consumer group that the job commits its offsets to: its lag can be asked of the brokers."""
    batches: int = 0
    rows: int = 0
    malformed: int = 0
    late: int = 0
    untimed: int = 0
    last: BatchProgress | None = None
    error: str | None = None

    def after(self, batch: BatchProgress) -> Self:
        """One micro-batch later."""
        return replace(
            self,
            at_ms=batch.finished_ms,
            batches=self.batches + 1,
            rows=self.rows + batch.rows,
            malformed=self.malformed + batch.malformed,
            late=self.late + batch.late,
            untimed=self.untimed + batch.untimed,
            last=batch,
        )

    def ended(self, state: State, at_ms: int, error: str | None = None) -> Self:
        """The run is over."""
        return replace(self, state=state, at_ms=at_ms, error=error)


def local_directory(checkpoint: str) -> Path | None:
    """The directory of a checkpoint that is on this machine; None for hdfs:// and the like."""
    path = checkpoint.removeprefix("file://") if checkpoint.startswith("file:///") else checkpoint.removeprefix("file:")
    return None if "://" in path else Path(path)


def write_progress(checkpoint: str, progress: JobProgress) -> None:
    """Keep this beside the checkpoint, where that is a directory of this machine."""
    directory = local_directory(checkpoint)
    if directory is None:
        return
    directory.mkdir(parents=True, exist_ok=True)
    write_whole(directory / FILE_NAME, json.dumps(asdict(progress), indent=1))


def write_whole(path: Path, text: str) -> None:
    """Replace a small file, so that a reader sees the old one or the new one."""
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    unfinished.write_text(text, encoding="utf-8")
    unfinished.replace(path)


def read_job_progress(checkpoint: str) -> JobProgress:
    """What the job with this checkpoint said last; one whose process is gone was killed."""
    directory = local_directory(checkpoint)
    if directory is None:
        raise CommandFailed(
            f"{checkpoint} is not a directory of this machine: the progress of a job is kept only beside a local checkpoint."
        )
    try:
        document = json.loads((directory / FILE_NAME).read_text(encoding="utf-8"))
        progress = _read(document)
    except FileNotFoundError:
        raise CommandFailed(f"No job has run with the checkpoint {checkpoint}: there is no {FILE_NAME} in it.") from None
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise CommandFailed(f"{directory / FILE_NAME} cannot be read: {error}") from None
    if progress.state == "running" and progress.host == socket.gethostname() and not _is_alive(progress.pid):
        return replace(progress, state="killed")
    return progress


def _read(document: Mapping[str, Any]) -> JobProgress:
    last = document["last"]
    return JobProgress(**{**document, "last": None if last is None else BatchProgress(**last)})


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
