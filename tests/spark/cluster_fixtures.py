"""A Spark cluster for the tests that want one, and Millstream as its executors get it."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from millstream.spark.session import NoJava, check_java
from tests.spark.standalone_cluster import standalone_cluster

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def master(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a master with two workers."""
    try:
        check_java()
    except NoJava as error:
        pytest.skip(str(error))
    with standalone_cluster(tmp_path_factory.mktemp("cluster")) as address:
        yield address


@pytest.fixture(scope="session")
def zipped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Millstream in a zip, for `--py-files`."""
    target = tmp_path_factory.mktemp("zip") / "millstream.zip"
    subprocess.run([sys.executable, ROOT / "scripts" / "spark_zip.py", target], check=True, timeout=30)
    return target
