"""What commands write to stdout: a table for people, JSON for programs.

On a terminal a table fits the window; in a pipe it is plain columns as wide as they need to be, so that `grep` and `awk` see whole lines.
"""

import json
import sys
from collections.abc import Collection, Iterable, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

PIPE_WIDTH = 100_000
UNITS = ("KiB", "MiB", "GiB", "TiB", "PiB", "EiB")
AGES = ((86_400, "d"), (3_600, "h"), (60, "min"))


def print_json(document: object) -> None:
    """One JSON document on one line."""
    print(json.dumps(document, ensure_ascii=False))


def print_table(columns: Sequence[str], rows: Iterable[Sequence[object]], *, title: str | None = None, right: Collection[str] = ()) -> None:
    """A table with these columns; numbers are aligned to the right, and the columns that are named in `right`."""
    console().print(make_table(columns, rows, title=title, right=right))


def console() -> "Console":
    """Where tables are written."""
    from rich.console import Console

    in_terminal = sys.stdout.isatty()
    return Console(width=None if in_terminal else PIPE_WIDTH, markup=False, highlight=False, soft_wrap=not in_terminal)


def make_table(
    columns: Sequence[str], rows: Iterable[Sequence[object]], *, title: str | None = None, right: Collection[str] = ()
) -> "Table":
    """The table itself; a cell may be text of rich's, with a style of its own."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    in_terminal = sys.stdout.isatty()
    cells = [list(row) for row in rows]
    table = Table(box=box.SIMPLE_HEAD if in_terminal else None, pad_edge=False, title=title, title_justify="left", title_style="bold")
    for index, column in enumerate(columns):
        is_number = column in right or (bool(cells) and all(isinstance(row[index], int) for row in cells))
        table.add_column(column, justify="right" if is_number else "left", overflow="fold", no_wrap=not in_terminal)
    for row in cells:
        table.add_row(*(cell if isinstance(cell, Text) else str(cell) for cell in row))
    return table


def format_timestamp(timestamp_ms: int) -> str:
    """Milliseconds since 1970 as a date in UTC, or `-` where there is none."""
    if timestamp_ms < 0:
        return "-"
    try:
        return datetime.fromtimestamp(timestamp_ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    except (ValueError, OverflowError, OSError):
        return str(timestamp_ms)


def format_size(size_bytes: float | None) -> str:
    """`1536` -> `1.5 KiB`."""
    if size_bytes is None:
        return "-"
    if size_bytes < 1024:
        return f"{size_bytes:.0f} B"
    power = min((int(size_bytes).bit_length() - 1) // 10, len(UNITS))
    return f"{size_bytes / 1024**power:.1f} {UNITS[power - 1]}"


def format_rate(per_second: float | None) -> str:
    """A number per second, with a digit after the point only where it matters."""
    if per_second is None:
        return "-"
    return f"{per_second:,.0f}" if per_second >= 10 or per_second == 0 else f"{per_second:.1f}" if per_second >= 0.1 else "<0.1"


def format_seconds(seconds: float | None) -> str:
    """`7384` -> `2.1 h`."""
    if seconds is None:
        return "-"
    for size, unit in AGES:
        if seconds >= size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.1f} s"
