"""Names of jobs, and the consumer groups named after them: the one rule for loads, windows and joins.

A group is only there to show the lag of its job, so no two jobs may share one. Jobs of a file have the name that it gives them; a load
that was given none is named after its checkpoint, which belongs to one load for ever.
"""

import hashlib
import re
from pathlib import Path, PurePosixPath
from typing import Final

from millstream.errors import UsageError

_NAME: Final = re.compile(r"[A-Za-z0-9._-]{1,100}")
_OTHER: Final = re.compile(r"[^A-Za-z0-9._-]+")
_LONGEST_STEM: Final = 60
_DIGEST_DIGITS: Final = 8


def group_of(name: str) -> str:
    """The consumer group that shows how far a job is behind."""
    return f"millstream-pipeline-{name}"


def check_name(name: str) -> None:
    """Raises `UsageError` unless a job can be called this."""
    if not _NAME.fullmatch(name):
        raise UsageError(f"name: {name!r} cannot be a job's: it has letters, digits, '.', '_' and '-', at most 100")


def name_after(checkpoint: str) -> str:
    """A name for the job with this checkpoint, given by its whole address: `checkpoints/lake` becomes `lake-` and some digits."""
    checkpoint = checkpoint.rstrip("/") if "://" in checkpoint else str(Path(checkpoint).expanduser().absolute())
    stem = _OTHER.sub("-", PurePosixPath(checkpoint).name).strip("-.")[:_LONGEST_STEM]
    digest = hashlib.sha256(checkpoint.encode()).hexdigest()[:_DIGEST_DIGITS]
    return f"{stem or 'load'}-{digest}"
