"""What commands write to stdout: a table for people, JSON for programs.

On a terminal a table fits the window; in a pipe it is plain columns as wide as they need to be, so that `grep` and `awk` see whole lines.
"""

import json
import sys
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

PIPE_WIDTH = 100_000


def print_json(document: object) -> None:
    """One JSON document on one line."""
    print(json.dumps(document, ensure_ascii=False))


def print_table(columns: Sequence[str], rows: Iterable[Sequence[object]], *, title: str | None = None) -> None:
    """A table with these columns; numbers are aligned to the right."""
    from rich import box
    from rich.console import Console
    from rich.table import Table

    in_terminal = sys.stdout.isatty()
    cells = [list(row) for row in rows]
    table = Table(box=box.SIMPLE_HEAD if in_terminal else None, pad_edge=False, title=title, title_justify="left", title_style="bold")
    for index, column in enumerate(columns):
        is_number = bool(cells) and all(isinstance(row[index], int) for row in cells)
        table.add_column(column, justify="right" if is_number else "left", overflow="fold", no_wrap=not in_terminal)
    for row in cells:
        table.add_row(*(str(cell) for cell in row))
    Console(width=None if in_terminal else PIPE_WIDTH, markup=False, highlight=False, soft_wrap=not in_terminal).print(table)


def format_timestamp(timestamp_ms: int) -> str:
    """Milliseconds since 1970 as a date in UTC, or `-` where there is none."""
    if timestamp_ms < 0:
        return "-"
    try:
        return datetime.fromtimestamp(timestamp_ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    except (ValueError, OverflowError, OSError):
        return str(timestamp_ms)
