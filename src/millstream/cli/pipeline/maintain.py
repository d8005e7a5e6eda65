"""`millstream pipeline maintain`: few large files instead of many small ones, and no files that no version needs."""

from dataclasses import asdict
from typing import Annotated

import typer

from millstream.cli.output import print_json, print_table
from millstream.cli.parameters import Output, OutputFormat
from millstream.cli.pipeline.extras import need_extra


def maintain(
    *,
    to: Annotated[str, typer.Option(metavar="PATH", help="A Delta table, or a directory of them: what `load` has for --to.")],
    retention_hours: Annotated[
        int, typer.Option(metavar="N", help="Keep what is younger, for readers of old versions and for loads that run.")
    ] = 168,
    file_megabytes: Annotated[int, typer.Option(metavar="N", help="How large files may become.")] = 256,
    compact: Annotated[bool, typer.Option("--compact/--no-compact", help="Put small files together.")] = True,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Change nothing; say how many files would go.")] = False,
    output: OutputFormat = Output.TABLE,
) -> None:
    """Put small files together and delete old ones, and those that killed tasks left behind. Loads may go on meanwhile."""
    need_extra("lake", "deltalake")
    from millstream.lake.maintenance import maintain, tables_at

    done = [
        maintain(table, retention_hours=retention_hours, file_bytes=file_megabytes * 1_000_000, compacts=compact, dry_run=dry_run)
        for table in tables_at(to)
    ]
    if output is Output.JSON:
        print_json([asdict(one) for one in done])
    else:
        removed = "would remove" if dry_run else "removed"
        print_table(["table", "files before", "files after", removed], [list(asdict(one).values()) for one in done])
