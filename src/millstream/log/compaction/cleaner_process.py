"""The process that compacts logs: `python -m millstream.log.compaction.cleaner_process`, started by the broker, which it never imports.

It reads orders from its standard input, one per line, and answers each with its groups and a result on its standard output
(`cleaning_order`). It ends when its input does. Per-record work in a thread of the broker would hold up every client; here it costs them
a share of a core that they do not use: the process is `nice`, and slowed down to `log.cleaner.io.max.bytes.per.second`.

It must not outlive its broker, whose next life removes `.cleaned` files and may write new ones: Linux kills it with its parent, and its
waiting for input notices anywhere else.
"""

import ctypes
import errno
import gc
import os
import select
import signal
import sys
import time
from collections.abc import Callable

from millstream.errors import KafkaError
from millstream.files import Files
from millstream.log.compaction.cleaner import Cleaner
from millstream.log.compaction.cleaning_order import CleaningOrder, CleaningResult, answer_line

NICENESS = 10
_PR_SET_PDEATHSIG = 1
_TEMPORARY = (errno.ENOENT, errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE)
_LONGEST_WAIT_S = 60.0


class Throttle:
    """Makes the work take as long as it would at `bytes_per_second`, on average since it began."""

    def __init__(self, bytes_per_second: float, *, wait: Callable[[float], None], monotonic: Callable[[], float] = time.monotonic) -> None:
        self._rate = max(1.0, bytes_per_second)
        self._wait = wait
        self._monotonic = monotonic
        self._started = monotonic()
        self._spent = 0

    def spend(self, size: int) -> None:
        """So many bytes were read or written: wait until they are due."""
        self._spent += size
        ahead_s = self._started + self._spent / self._rate - self._monotonic()
        self._wait(max(0.0, min(ahead_s, _LONGEST_WAIT_S)))


def serve() -> None:
    """Carry out orders until there are no more."""
    files = Files()
    for line in sys.stdin.buffer:
        order = CleaningOrder.from_line(line)
        throttle = Throttle(order.bytes_per_second, wait=_wait_or_end)
        try:
            for answer in Cleaner(files, order, spend=throttle.spend).run():
                _say(answer_line(answer))
        except KafkaError as error:
            _say(answer_line(CleaningResult(order.first_dirty_offset, error=str(error))))
        except OSError as error:
            is_temporary = error.errno in _TEMPORARY
            _say(answer_line(CleaningResult(order.first_dirty_offset, error=str(error), is_temporary=is_temporary)))


def main() -> None:
    """Set the process up and serve."""
    # A Ctrl-C in a terminal goes to the whole group: the broker decides when its cleaner ends.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _die_with_parent()
    os.nice(NICENESS)
    # Nothing here forms cycles, and walking a dictionary of a million keys again and again costs more than the work itself.
    gc.disable()
    serve()


def _say(line: bytes) -> None:
    sys.stdout.buffer.write(line)
    sys.stdout.buffer.flush()


def _wait_or_end(seconds: float) -> None:
    """Wait; but if the broker closes the pipe, end at once."""
    poll = select.poll()
    # Not POLLIN: a further order may lie there already. POLLHUP and POLLERR are always reported.
    poll.register(sys.stdin.fileno(), 0)
    if poll.poll(seconds * 1000):
        os._exit(0)


def _die_with_parent() -> None:
    parent = os.getppid()
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(0)


if __name__ == "__main__":
    main()
