"""A view that is drawn again and again until it is interrupted: what `--watch` and `top` have in common.

On a terminal it is drawn in place; in a pipe each picture follows the last one. Ctrl-C is how it ends, so that is no failure.
"""

import sys
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from millstream.errors import MillstreamError

if TYPE_CHECKING:
    from rich.console import RenderableType


def watch(picture: "Callable[[], RenderableType]", *, every_s: float, count: int | None = None) -> None:
    """Draw `picture()` every so many seconds; `count` times, if that is given."""
    from rich.live import Live

    from millstream.cli.output import console

    out = console()
    draw = _patiently(picture)
    try:
        if not sys.stdout.isatty():
            for number in _rounds(every_s, count):
                if number:
                    print()
                out.print(draw())
                sys.stdout.flush()
            return
        with Live(console=out, auto_refresh=False, vertical_overflow="crop") as live:
            for _ in _rounds(every_s, count):
                live.update(draw(), refresh=True)
    except KeyboardInterrupt:
        return


def _patiently(picture: "Callable[[], RenderableType]") -> "Callable[[], RenderableType]":
    """What is drawn once is drawn again when a broker that went away is back; until then it says why it is not."""
    was_drawn = False

    def draw() -> "RenderableType":
        nonlocal was_drawn
        try:
            drawn = picture()
        except MillstreamError as error:
            if not was_drawn:
                raise
            return str(error)
        was_drawn = True
        return drawn

    return draw


def _rounds(every_s: float, count: int | None) -> Iterator[int]:
    """0, 1, ... at these intervals; a round that takes longer delays the next one, and none is made up for."""
    number = 0
    while count is None or number < count:
        started = time.monotonic()
        yield number
        number += 1
        if number != count:
            time.sleep(max(every_s - (time.monotonic() - started), 0.05))
