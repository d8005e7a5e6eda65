from pathlib import Path

from tests.unit.cli.conftest import Millstream
from tests.unit.lake.test_maintenance import make_table


def test_tables_are_maintained(millstream: Millstream, tmp_path: Path) -> None:
    make_table(str(tmp_path / "clicks"), 3)
    dry = millstream("pipeline", "maintain", "--to", str(tmp_path), "--dry-run", "--output", "json")
    assert dry.documents == [[{"table": str(tmp_path / "clicks"), "files_before": 3, "files_after": 3, "removed": 0}]]
    done = millstream("pipeline", "maintain", "--to", str(tmp_path))
    assert (done.code, "files after" in done.out) == (0, True)
    missing = millstream("pipeline", "maintain", "--to", str(tmp_path / "none"))
    assert (missing.code, "There is no Delta table at" in missing.err) == (1, True)
