"""A registry that is killed between writing its first schema and reading it back: a program with the arguments of `registry serve`."""

import os
import signal
import sys

from millstream.cli.app import run
from millstream.registry.schema_log import WRITE_SECONDS, SchemaLog

WAITS_BEFORE = 1
"""It has read its claim back."""

_waits = 0
_passed = SchemaLog.passed


async def _die_instead(self: SchemaLog, offset: int, timeout_s: float = WRITE_SECONDS) -> None:
    global _waits  # noqa: PLW0603 -- one process, one life
    _waits += 1
    if _waits > WAITS_BEFORE:
        os.kill(os.getpid(), signal.SIGKILL)
    await _passed(self, offset, timeout_s)


SchemaLog.passed = _die_instead  # type: ignore[method-assign] # the point of this program
run(["registry", "serve", *sys.argv[1:]])
