"""A view that is drawn again and again until it is interrupted: what `--watch` and `top` have in common.

On a terminal it is drawn in place; in a pipe each picture follows the last one. Ctrl-C is how it ends, so that is no failure.
"""

import sys
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import RenderableType


def watch(picture: "Callable[[], RenderableType]", *, every_s: float, count: int | None = None) -> None:
    """Draw `picture()` every so many seconds; `count` times, if that is given."""
    from rich.live import Live

    from millstream.cli.output import console

    out = console()
    try:
        if not sys.stdout.isatty():
            for number in _rounds(every_s, count):
                if number:
                    print()
                out.print(picture())
                sys.stdout.flush()
            return
        with Live(console=out, auto_refresh=False, vertical_overflow="crop") as live:
            for _ in _rounds(every_s, count):
                live.update(picture(), refresh=True)
    except KeyboardInterrupt:
        return


def _rounds(every_s: float, count: int | None) -> Iterator[int]:
    """0, 1, ... at these intervals; a round that takes longer delays the next one, and none is made up for."""
    number = 0
    while count is None or number < count:
        started = time.monotonic()
        yield number
        number += 1
        if number != count:
            time.sleep(max(every_s - (time.monotonic() - started), 0.05))
