"""`produce --follow`: send the lines of files as they grow, each at least once, and remember where one was.

Lines are handed to the producer, and when all of them are delivered the positions after them are written down; killed in between, the next
run sends those lines again. A broker that is away is waited for: nothing is read meanwhile, once the producer's queue is full.
"""

import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Final

from millstream.cli.produce.deliveries import Deliveries
from millstream.cli.produce.follow_state import locked, read_state, write_state
from millstream.cli.produce.followed_file import FilePlace, FollowedFile
from millstream.cli.produce.record_form import Outgoing
from millstream.errors import MillstreamError

POLL_S: Final = 0.2
SAVE_EVERY_S: Final = 1.0
SAVE_EVERY_LINES: Final = 20_000
STOP_S: Final = 10.0
"""How long a stop waits for what is under way."""
SETTINGS: Final = {"message.timeout.ms": "0", "enable.idempotence": "true"}
"""Try for ever, and neither repeat nor reorder by doing so."""


class Follower:
    """Follows some files into one topic."""

    def __init__(
        self,
        files: Sequence[Path],
        form: Callable[[bytes], Outgoing],
        deliveries: Deliveries,
        *,
        state: Path,
        from_end: bool,
        say: Callable[[str], None],
    ) -> None:
        self._files = [Path(file).absolute() for file in files]
        self._form = form
        self._deliveries = deliveries
        self._state = state
        self._from_end = from_end
        self._say = say
        self._others: dict[str, list[FilePlace]] = {}
        """What the state file says about files that are not followed this time: it is kept."""

    def run(self) -> None:
        """Until it is interrupted, or a record cannot be delivered."""
        with locked(self._state), _terminated_as_interrupted():
            followed = self._start(read_state(self._state, self._deliveries.topic))
            try:
                self._follow(followed)
            except KeyboardInterrupt:
                if not self._save(followed, at_most_s=STOP_S):
                    self._say("not everything was delivered: the rest will be sent, some of it again, with the next run")
            except MillstreamError:
                # A line that cannot be sent: those before it must not be sent again whenever somebody starts this anew.
                self._save(followed, at_most_s=STOP_S)
                raise
            finally:
                for one in followed:
                    one.close()

    def _start(self, saved: Mapping[str, list[FilePlace]]) -> list[FollowedFile]:
        names = {str(path) for path in self._files}
        self._others = {name: places for name, places in saved.items() if name not in names}
        followed = [FollowedFile(path, saved.get(str(path), []), self._from_end) for path in dict.fromkeys(self._files)]
        for one in followed:
            one.start()
            for remark in one.remarks:
                self._say(remark)
            if not one.places():
                self._say(f"{one.path} is not there yet: waiting for it")
        self._save(followed)
        return followed

    def _follow(self, followed: list[FollowedFile]) -> None:
        saved_at, unsaved = time.monotonic(), 0
        while self._deliveries.failure is None:
            handed_over = 0
            for one in followed:
                for line in one.lines():
                    self._deliveries.hand_over(self._form(line))
                    handed_over += 1
            unsaved += handed_over
            is_due = unsaved >= SAVE_EVERY_LINES or time.monotonic() - saved_at >= SAVE_EVERY_S
            if unsaved and (is_due or not handed_over):
                self._save(followed)
                saved_at, unsaved = time.monotonic(), 0
            if not handed_over:
                time.sleep(POLL_S)

    def _save(self, followed: list[FollowedFile], *, at_most_s: float | None = None) -> bool:
        """Wait for the deliveries and remember them; False if there are still some to come."""
        is_delivered = self._deliveries.wait(at_most_s=at_most_s)
        if is_delivered:
            places = {str(one.path): one.places() for one in followed}
            write_state(self._state, self._deliveries.topic, self._others | places)
        return is_delivered


@contextmanager
def _terminated_as_interrupted() -> Iterator[None]:
    """While this lasts SIGTERM does what Ctrl-C does."""

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
