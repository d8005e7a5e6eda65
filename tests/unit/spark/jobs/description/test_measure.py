import pytest

from millstream.errors import UsageError
from millstream.spark.jobs.description.measure import DEFAULT_ERROR, Measure, parse_measure


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("count", Measure("m", "count")),
        ("sum(bytes)", Measure("m", "sum", "bytes")),
        (" MAX( page.ms ) ", Measure("m", "max", "page.ms")),
        ("distinct(user)", Measure("m", "distinct", "user", error=DEFAULT_ERROR)),
        ("distinct(user, 0.1)", Measure("m", "distinct", "user", error=0.1)),
        ("top(10, page)", Measure("m", "top", "page", k=10)),
    ],
)
def test_measures_are_written_like_functions(text: str, expected: Measure) -> None:
    assert parse_measure("m", text) == expected


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("cuont", "no measure 'cuont'. Did you mean 'count'?"),
        ("count(page)", "count takes no column"),
        ("sum", "needs the name of one column"),
        ("sum(a, b)", "needs the name of one column"),
        ("sum(a + b)", r"goes to \[input.columns\]"),
        ("top(page)", r"write top\(K, COLUMN\)"),
        ("top(0, page)", "K from 1 to 1000"),
        ("top(1001, page)", "K from 1 to 1000"),
        ("distinct(user, 2)", "relative error"),
        ("distinct(user, little)", "relative error"),
        ("sum(a", "is no measure"),
    ],
)
def test_what_is_no_measure_is_said_with_what_to_write(text: str, problem: str) -> None:
    with pytest.raises(UsageError, match=rf"\[measures\] m: .*{problem}"):
        parse_measure("m", text)
