"""Keeping Iceberg tables small: old snapshots are expired, and files that killed tasks left behind deleted.

pyiceberg cannot put small files together: that is for an engine that can (Spark's `rewrite_data_files`, Trino's `OPTIMIZE`). Such an engine
may also rewrite a table while loads go on, because where the table stands is among its properties. Manifests of expired snapshots stay;
they are small.
"""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from pyarrow import fs
from pyiceberg.exceptions import CommitFailedException, RESTError
from sqlalchemy.exc import SQLAlchemyError

from millstream.errors import CommandFailed
from millstream.lake.columns import EVENT_DATE
from millstream.lake.iceberg_catalog import open_catalog, table_names
from millstream.lake.maintenance import DEFAULT_RETENTION_HOURS, Maintained, check_retention
from millstream.lake.place import normal_address, open_place

if TYPE_CHECKING:
    from pyiceberg.table import Table


def maintain_iceberg(
    to: str, properties: Mapping[str, str], *, retention_hours: int = DEFAULT_RETENTION_HOURS, dry_run: bool = False
) -> list[Maintained]:
    """Expire the snapshots of all tables of a load, and delete files that are in none, as far as they are older than the retention."""
    check_retention(retention_hours)
    catalog = open_catalog(to, properties)
    before = datetime.now(UTC) - timedelta(hours=retention_hours)
    try:
        return [_maintain(catalog.load_table(name), before, dry_run=dry_run) for name in table_names(catalog, properties)]
    except (RESTError, SQLAlchemyError, CommitFailedException, OSError) as error:
        raise CommandFailed(f"The Iceberg tables at {to} could not be maintained: {error}. They are whole; try again.") from None


def _maintain(table: "Table", before: datetime, *, dry_run: bool) -> Maintained:
    if not dry_run:
        table.maintenance.expire_snapshots().older_than(before).commit()
        table.refresh()
    # Before the files are looked for: one that is committed meanwhile is younger than what is deleted.
    orphans = _orphans(table, before)
    if not dry_run:
        place = open_place(table.location())
        for path in orphans:
            place.files.delete_file(path)
    files = table.inspect.files().num_rows
    return Maintained(normal_address(table.location()), files, files, len(orphans))


def _orphans(table: "Table", before: datetime) -> list[str]:
    """Data files in the table's directory that no snapshot has."""
    place = open_place(table.location())
    if not place.is_there():
        return []
    folders = [one.path for one in place.files.get_file_info(fs.FileSelector(place.path)) if one.base_name.startswith(f"{EVENT_DATE}=")]
    known = {open_place(path).path for path in table.inspect.all_files()["file_path"].to_pylist()}
    return [
        file.path
        for folder in folders
        for file in place.files.get_file_info(fs.FileSelector(folder, recursive=True))
        if file.type == fs.FileType.File and file.path not in known and file.mtime < before
    ]
