"""`millstream pipeline maintain`: few large files instead of many small ones, and no files that no version needs."""

import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from millstream.cli.output import print_json, print_table
from millstream.cli.parameters import Output, OutputFormat
from millstream.cli.pipeline.extras import need_extra

if TYPE_CHECKING:
    from millstream.lake.maintenance import Maintained


def maintain(
    *,
    to: Annotated[str, typer.Option(metavar="PATH", help="A Delta table, or a directory of tables: what `load` has for --to.")],
    retention_hours: Annotated[
        int, typer.Option(metavar="N", help="Keep what is younger, for readers of old versions and for loads that run.")
    ] = 168,
    file_megabytes: Annotated[int, typer.Option(metavar="N", help="How large files may become.")] = 256,
    compact: Annotated[bool, typer.Option("--compact/--no-compact", help="Put small files together.")] = True,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Change nothing; say how many files would go.")] = False,
    catalog: Annotated[
        list[str] | None, typer.Option(metavar="NAME=VALUE", help="Property of the Iceberg catalog, if there is one elsewhere.")
    ] = None,
    output: OutputFormat = Output.TABLE,
) -> None:
    """Put small files together and delete old ones, and those that killed tasks left behind. Loads may go on meanwhile.

    Of Iceberg tables old snapshots are expired and leftovers deleted; their small files stay.
    """
    need_extra("lake", "deltalake")
    from millstream.lake.maintenance import maintain, tables_at

    if catalog or Path(to, "iceberg-catalog.db").is_file():
        done = _maintain_iceberg(to, catalog or [], retention_hours=retention_hours, compacts=compact, dry_run=dry_run)
    else:
        done = [
            maintain(table, retention_hours=retention_hours, file_bytes=file_megabytes * 1_000_000, compacts=compact, dry_run=dry_run)
            for table in tables_at(to)
        ]
    if output is Output.JSON:
        print_json([asdict(one) for one in done])
    else:
        removed = "would remove" if dry_run else "removed"
        print_table(["table", "files before", "files after", removed], [list(asdict(one).values()) for one in done])


def _maintain_iceberg(to: str, catalog: list[str], *, retention_hours: int, compacts: bool, dry_run: bool) -> "list[Maintained]":
    need_extra("iceberg", "pyiceberg", "sqlalchemy")
    from millstream.cli.properties import parse_assignments
    from millstream.lake.iceberg_maintenance import maintain_iceberg

    if compacts:
        print(
            "millstream: small files of Iceberg tables stay as they are: an engine that rewrites them is needed, as Spark's "
            "rewrite_data_files. (--no-compact does not ask for it.)",
            file=sys.stderr,
        )
    return maintain_iceberg(to, parse_assignments(catalog), retention_hours=retention_hours, dry_run=dry_run)
