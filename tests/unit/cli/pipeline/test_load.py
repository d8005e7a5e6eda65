from importlib.machinery import ModuleSpec
from importlib.util import find_spec

import pytest

from tests.unit.cli.conftest import Millstream

PLACES = ("--to", "lake", "--checkpoint", "checkpoint")


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        (["--topics", "a,a"], "one is named twice"),
        (["--topics", "a b"], "'a b' is not the name of a topic"),
        (["--topics", "a", "--value-format", "avro"], "value-format avro needs a registry"),
        (["--topics", "a", "--value-format", "jason"], "value-format 'jason' is none of binary, string, json, avro"),
        (["--topics", "a", "--table", "iceberg"], "table 'iceberg' is none of delta, parquet"),
        (["--topics", "a", "--table", "parquet", "--audit", "lake"], "only a Delta table keeps its counts"),
        (["--topics", "a", "--dead-letters", "a"], "would feed itself"),
    ],
)
def test_what_is_asked_wrongly_is_said_before_spark_starts(millstream: Millstream, flags: list[str], sentence: str) -> None:
    done = millstream("pipeline", "load", *PLACES, *flags)
    assert (done.code, done.out) == (2, "")
    assert sentence in done.err
    assert done.err.count("\n") == 1


def test_what_is_not_installed_is_said_with_the_extra_that_brings_it(millstream: Millstream, monkeypatch: pytest.MonkeyPatch) -> None:
    def without_deltalake(name: str, package: str | None = None) -> ModuleSpec | None:
        return None if name == "deltalake" else find_spec(name, package)

    monkeypatch.setattr("millstream.cli.pipeline.extras.find_spec", without_deltalake)
    done = millstream("pipeline", "load", *PLACES, "--topics", "a")
    assert (done.code, done.err) == (2, "millstream: This needs deltalake: install it with pip install 'millstream[lake]'.\n")
