"""docs/scale.md says what its arithmetic gives."""

from itertools import pairwise
from pathlib import Path

import pytest

from bench.scale import LOADS, Load, tables

PAGE = Path(__file__).parents[1] / "docs" / "scale.md"


def test_the_tables_of_the_page_are_computed_from_what_was_measured() -> None:
    page = PAGE.read_text()
    missing = [table for table in tables() if table not in page]
    assert not missing, "docs/scale.md has other tables: put those of `python -m bench.scale` into it"


def test_more_messages_never_need_less() -> None:
    for less, more in pairwise(LOADS):
        assert max(less.brokers.values()) <= max(more.brokers.values())
        assert less.partitions <= more.partitions
        assert less.cores("join of two streams, two cores") < more.cores("join of two streams, two cores")
        assert less.joined_state < more.joined_state


def test_a_billion_messages_of_200_bytes_are_what_the_paper_says() -> None:
    paper = Load("", 1e9)
    assert paper.bytes_day == 200e9
    assert paper.average == pytest.approx(11_574, abs=1)
    assert paper.stored == 200e9 * 7 * 3
    # One minute, of one of twenty tables, in one file.
    assert paper.rows_per_file == pytest.approx(1e9 / 86_400 * 60 / 20)
    assert paper.files_per_hour == pytest.approx(60 * 20)
