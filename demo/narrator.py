"""Says in plain words what happens, on the terminal or in a log."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.text import Text

_INDENT: Final = (0, 0, 0, 3)
_WIDTH: Final = 110
"""Where the output is not a terminal."""
_PARTS: Final = 4
"""So many lines of progress, where the output is not a terminal."""

Advance = Callable[[int, str], None]


class Narrator:
    """Prints steps, sentences and tables, with the seconds since the beginning."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console(highlight=False)
        if not self._console.is_terminal:
            self._console.width = _WIDTH
        self._began = time.monotonic()
        self._steps = 0

    @property
    def seconds(self) -> float:
        """Since the beginning."""
        return time.monotonic() - self._began

    def step(self, title: str) -> None:
        """The next part begins."""
        self._steps += 1
        self._console.print(f"\n[bold]{self._steps}. {title}[/bold] [dim]({self.seconds:.0f} s)[/dim]")

    def say(self, text: str) -> None:
        """A sentence or two."""
        self._console.print(Padding(Text(text), _INDENT, expand=False))

    def command(self, text: str) -> None:
        """What a person would type."""
        self._console.print(f"   $ {text}", style="dim", markup=False, soft_wrap=True)

    def show(self, what: RenderableType) -> None:
        """A table, or text with markup."""
        self._console.print(what)

    @contextmanager
    def waiting(self, text: str) -> Iterator[None]:
        """Shows on a terminal that something is under way."""
        if not self._console.is_terminal:
            yield
            return
        with Progress(
            TextColumn("  "), SpinnerColumn(), TextColumn(text), TimeElapsedColumn(), console=self._console, transient=True
        ) as one:
            one.add_task("")
            yield

    @contextmanager
    def progress(self, total: int) -> Iterator[Advance]:
        """Shows how far something is: the function that this gives is called with the number that is done, and what to say beside it."""
        if not self._console.is_terminal:
            yield self._lines(total)
            return
        columns = (
            TextColumn("  "),
            BarColumn(40),
            TextColumn("{task.percentage:>3.0f} %"),
            TimeRemainingColumn(),
            TextColumn("{task.description}"),
        )
        with Progress(*columns, console=self._console, transient=True) as bar:
            task = bar.add_task("", total=total)
            yield lambda done, text: bar.update(task, completed=done, description=text)

    def _lines(self, total: int) -> Advance:
        shown = 0

        def advance(done: int, text: str) -> None:
            nonlocal shown
            if done * _PARTS // max(total, 1) > shown:
                shown = done * _PARTS // max(total, 1)
                self.say(f"{done / total:.0%} {text}")

        return advance
