"""A process that tests kill and start again."""

import signal
from pathlib import Path

from tests.repeated_process import RepeatedProcess


class KilledProcess(RepeatedProcess):
    """Each life gets its number as the last argument, and never ends by itself."""

    def __init__(self, command: list[str], output: Path) -> None:
        super().__init__(command, output)
        self._lives = 0

    def arguments(self) -> list[str]:
        self._lives += 1
        return [*super().arguments(), str(self._lives)]

    def kill(self) -> None:
        """The end without warning; it must not have ended by itself."""
        assert self._process is None or self._process.poll() in (None, -signal.SIGKILL), self.output
        if self.is_running:
            super().kill()
