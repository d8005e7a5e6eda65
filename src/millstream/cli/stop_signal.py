"""The signals by which a broker is stopped: SIGTERM, and Ctrl-C in a terminal.

The first one asks for a clean stop, or gives up a start that is under way. The second one ends the process.
"""

import asyncio
import signal


class StopSignal:
    """The first signal; made by the task that starts what it stops."""

    def __init__(self) -> None:
        self.was_given = asyncio.Event()
        self._starting = asyncio.current_task()
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, self._stop)

    def start_is_over(self) -> None:
        """From now on it is waited for."""
        self._starting = None

    def _stop(self) -> None:
        self.was_given.set()
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().remove_signal_handler(number)
            # No KeyboardInterrupt: at any line of a clean stop it would leave something that the rest of it waits for.
            signal.signal(number, signal.SIG_DFL)
        if self._starting is not None:
            self._starting.cancel()
