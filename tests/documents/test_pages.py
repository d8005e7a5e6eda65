"""Every page runs as it is written, from its first snippet to its last."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.documents.page import Page, all_pages
from tests.documents.page_runner import PageRunner

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.parametrize("page", [page for page in all_pages() if page.runs_something], ids=lambda page: page.name)
def test_page_runs_as_it_is_written(
    page: Page, addresses: Mapping[str, str], lazy_spark: "Callable[[], SparkSession]", tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = tmp_path / "page"
    directory.mkdir()
    monkeypatch.chdir(directory)
    PageRunner(page, directory, addresses, lazy_spark).run()
