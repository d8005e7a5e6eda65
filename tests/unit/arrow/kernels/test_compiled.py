"""Without numba everything is read as with it, only slower, and a warning says so; compiled code finds a folder to be kept in."""

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from millstream.arrow.kernels.compiled import _private_folder

ROOT = Path(__file__).parents[4]

WITHOUT_NUMBA = """
import sys
sys.modules["numba"] = None
import pytest
from hypothesis import settings
settings.register_profile("few", max_examples=8, derandomize=True, deadline=None, database=None)
sys.exit(pytest.main([
    "-q", "-p", "no:cacheprovider", "-W", "ignore::pytest.PytestAssertRewriteWarning", "--hypothesis-profile=few",
    "tests/properties/test_arrow_records.py", "tests/properties/test_arrow_avro.py",
    "tests/unit/spark/sink/test_row_digest.py", "-k", "not many_small",
]))
"""

WARNED = """
import sys
sys.modules["numba"] = None
from millstream.arrow.kernels.compiled import warn_if_slow
warn_if_slow()
warn_if_slow()
"""

KEPT = """
import numpy as np
from millstream.arrow.kernels.record_kernel import find_next_offset
assert find_next_offset(np.zeros(0, np.uint8)) == -1
print(find_next_offset.stats.cache_path)
"""

SIZED = """
import numpy as np
from millstream.arrow.{module} import null_column
from millstream.arrow.kernels.batch_kernels import _field_size
print(_field_size(null_column(1), 0), sum(_field_size.stats.cache_hits.values()))
"""


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_without_numba_the_same_is_read() -> None:
    done = subprocess.run([sys.executable, "-c", WITHOUT_NUMBA], cwd=ROOT, capture_output=True, text=True, timeout=280, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]


def test_slowness_is_reported_once() -> None:
    done = subprocess.run([sys.executable, "-c", WARNED], cwd=ROOT, capture_output=True, text=True, timeout=60, check=True)
    assert done.stderr.count("numba is not installed in this Python") == 1


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_package_in_a_zip_keeps_its_compiled_code_in_the_users_cache(tmp_path: Path) -> None:
    package = tmp_path / "millstream.zip"
    with zipfile.ZipFile(package, "w") as archive:
        for path in sorted((ROOT / "src" / "millstream").rglob("*.py")):
            archive.write(path, path.relative_to(ROOT / "src"))
    environment = os.environ | {"PYTHONPATH": str(package), "HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    environment.pop("NUMBA_CACHE_DIR", None)
    done = subprocess.run(
        [sys.executable, "-c", KEPT], env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=280, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.startswith(str(tmp_path / "cache"))
    assert list((tmp_path / "cache").rglob("*.nbi"))


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_code_that_was_kept_for_other_sources_is_compiled_again(tmp_path: Path) -> None:
    package = tmp_path / "millstream"
    shutil.copytree(ROOT / "src" / "millstream", package, ignore=shutil.ignore_patterns("__pycache__"))

    def run(module: str) -> str:
        environment = os.environ | {"PYTHONPATH": str(tmp_path), "NUMBA_CACHE_DIR": str(tmp_path / "cache")}
        script = SIZED.format(module=module)
        done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, timeout=140, check=False)
        assert done.returncode == 0, done.stderr[-3000:]
        return done.stdout.strip()

    assert [run("binary_columns"), run("binary_columns")] == ["1 0", "1 1"]
    (package / "arrow" / "binary_columns.py").rename(package / "arrow" / "moved_columns.py")
    for path in package.rglob("*.py"):
        path.write_text(path.read_text().replace("arrow.binary_columns", "arrow.moved_columns"))
    assert run("moved_columns") == "1 0"


def test_a_folder_that_others_may_write_to_is_not_loaded_from(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    folder = _private_folder()
    assert folder.stat().st_mode & 0o777 == 0o700
    assert _private_folder() == folder
    folder.chmod(0o777)
    assert _private_folder() != folder
