import os
from pathlib import Path

import pytest

from millstream.errors import UsageError
from millstream.lake.columns import file_schema
from millstream.lake.iceberg_catalog import open_catalog
from millstream.lake.iceberg_maintenance import maintain_iceberg
from millstream.lake.iceberg_table import IcebergWriter
from tests.unit.cli.conftest import Millstream, millstream
from tests.unit.lake.test_delta_table import VALUE, batch, write_files

__all__ = ["millstream"]

LONG_AGO = 1_000_000_000


def test_leftovers_go_and_what_loads_and_readers_need_stays(tmp_path: Path, millstream: Millstream) -> None:
    lake = str(tmp_path)
    writer = IcebergWriter(lake, "clicks", catalog={})
    for number in range(3):
        writer.commit(batch(writer.address, number, number, number + 1), file_schema(VALUE))
    young = Path(writer.address, write_files(writer.address, 100, 1)[0].path)
    orphan = Path(writer.address, write_files(writer.address, 101, 1)[0].path)
    for path in Path(writer.address).rglob("*.parquet"):
        if path != young:
            os.utime(path, (LONG_AGO, LONG_AGO))
    assert [one.removed for one in maintain_iceberg(lake, {}, dry_run=True)] == [1]
    assert orphan.exists()
    done = millstream("pipeline", "maintain", "--to", lake, "--retention-hours", "1", "--output", "json")
    assert done.documents == [[{"table": writer.address, "files_before": 3, "files_after": 3, "removed": 1}]]
    assert "small files of Iceberg tables stay as they are" in done.err
    assert (orphan.exists(), young.exists()) == (False, True)
    assert open_catalog(lake, {}).load_table(("lake", "clicks")).scan().to_arrow().num_rows == 3
    # Where the table stands is known also when the snapshots that brought it there are not.
    assert writer.positions("clicks", [0]) == {0: 3}
    with pytest.raises(UsageError, match="could delete what a load is writing now"):
        maintain_iceberg(lake, {}, retention_hours=0)
