"""One run at a time per checkpoint: a lock on a file in it, which the kernel takes back when its process ends, however it ends.

Spark notices a second run on a checkpoint as well, but only after a micro-batch, and by then it has written files and dead letters.
"""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from millstream.errors import CommandFailed
from millstream.spark.jobs.running.progress import local_directory

FILE_NAME: Final = "millstream-lock"
_LONGEST_PID: Final = 20


@contextmanager
def locked_checkpoint(checkpoint: str) -> Iterator[None]:
    """Holds the lock; `CommandFailed` if another process does. Only directories of this machine are locked."""
    directory = local_directory(checkpoint)
    if directory is None:
        yield
        return
    try:
        directory.mkdir(parents=True, exist_ok=True)
        file = (directory / FILE_NAME).open("a+", encoding="utf-8")
    except OSError as error:
        raise CommandFailed(f"The checkpoint {checkpoint} cannot be written to: {error.strerror}.") from None
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            holder = file.read(_LONGEST_PID).strip() or "unknown"
            raise CommandFailed(f"Another run (process {holder}) uses the checkpoint {checkpoint}: let only one run at a time.") from None
        file.truncate(0)
        file.write(f"{os.getpid()}\n")
        file.flush()
        yield
