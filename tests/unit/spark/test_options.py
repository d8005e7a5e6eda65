"""The options of both directions: each is documented, and each direction takes the other's."""

from pathlib import Path

import pytest

from millstream.spark.options import READ, WRITE, Direction, Options
from millstream.spark.sink.producer_options import OBEYED

DOCS = Path(__file__).parents[3] / "docs"


@pytest.mark.parametrize(
    ("page", "names"),
    [("spark.md", READ.names), ("spark-sink.md", WRITE.names), ("spark-sink.md", tuple(f"kafka.{name}" for name in sorted(OBEYED)))],
)
def test_every_option_is_documented(page: str, names: tuple[str, ...]) -> None:
    text = (DOCS / page).read_text()
    assert [name for name in names if f"`{name}`" not in text] == []


@pytest.mark.parametrize(("direction", "other"), [(READ, WRITE), (WRITE, READ)])
def test_a_table_of_sql_has_one_list_of_options_for_both_directions(direction: Direction, other: Direction) -> None:
    assert set(Options(dict.fromkeys(other.names, "x"), direction)) == set(other.names)
