from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.unit.cli.conftest import Millstream

PLACES = ("--to", "lake", "--checkpoint", "checkpoint")


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a load would write goes nowhere else."""
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        (["--topics", "a,a"], "one is named twice"),
        (["--topics", "a b"], "'a b' is not the name of a topic"),
        (["--topics", "a", "--value-format", "avro"], "value-format avro needs a registry"),
        (["--topics", "a", "--value-format", "jason"], "value-format 'jason' is none of binary, string, json, avro"),
        (["--topics", "a", "--table", "icebreg"], "table 'icebreg' is none of delta, parquet, iceberg. Did you mean 'iceberg'?"),
        (["--topics", "a", "--table", "parquet", "--audit", "lake"], "only Delta and Iceberg tables keep their counts"),
        (["--topics", "a", "--dead-letters", "a"], "would feed itself"),
    ],
)
def test_what_is_asked_wrongly_is_said_before_spark_starts(millstream: Millstream, flags: list[str], sentence: str) -> None:
    done = millstream("pipeline", "load", *PLACES, *flags)
    assert (done.code, done.out) == (2, "")
    assert sentence in done.err
    assert done.err.count("\n") == 1


def test_a_load_that_is_not_complete_says_what_is_missing(millstream: Millstream) -> None:
    done = millstream("pipeline", "load", "--topics", "a")
    assert done.code == 2
    assert "give --to PATH, --checkpoint DIR, or a FILE.toml that says it" in done.err


def test_a_load_is_described_by_a_file_and_flags_count_more(millstream: Millstream, tmp_path: Path) -> None:
    file = tmp_path / "load.toml"
    whole = 'brokers = "127.0.0.1:1"\ntopics = ["clicks"]\nto = "lake"\ncheckpoint = "here"\nevery = "2 minutes"\n'
    file.write_text(whole)
    done = millstream("pipeline", "load", str(file), "--value-format", "jsn")
    assert (done.code, "value-format 'jsn' is none of" in done.err) == (2, True)
    for line, sentence in (
        ('event-tiem = "at"', "'event-tiem'. Did you mean 'event-time'?"),
        ("once = 1", "once: 1 is not true or false"),
        ("[kafka]\nretries = 5", "kafka: {'retries': 5} is not a table of texts"),
        ('value-format = "avro"', "value-format avro needs a registry"),
        ('value-format = "json"\nvalue-schema = "id BIGINY"', "value-schema: 'id BIGINY' is no list of columns"),
    ):
        file.write_text(whole + line)
        done = millstream("pipeline", "load", str(file))
        assert (done.code, done.out) == (2, "")
        assert sentence in done.err


def test_brokers_that_do_not_answer_are_said_before_spark_starts(millstream: Millstream) -> None:
    done = millstream("pipeline", "load", *PLACES, "--topics", "a", "--brokers", "127.0.0.1:1")
    assert done.code == 1
    assert "127.0.0.1:1" in done.err
    assert done.err.count("\n") == 1


def test_what_is_not_installed_is_said_with_the_extra_that_brings_it(millstream: Millstream, monkeypatch: pytest.MonkeyPatch) -> None:
    def without_deltalake(name: str, package: str | None = None) -> ModuleSpec | None:
        return None if name == "deltalake" else find_spec(name, package)

    monkeypatch.setattr("millstream.cli.pipeline.extras.find_spec", without_deltalake)
    done = millstream("pipeline", "load", *PLACES, "--topics", "a")
    assert (done.code, done.err) == (2, "millstream: This needs deltalake: pip install '.[lake]' in a checkout of Millstream.\n")


def test_environment_and_profile_stand_in_for_flags_and_not_for_what_a_file_says(
    millstream: Millstream, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    avro = ("pipeline", "load", *PLACES, "--topics", "a", "--value-format", "avro")
    monkeypatch.setenv("MILLSTREAM_REGISTRY", "http://127.0.0.1:2")
    monkeypatch.setenv("MILLSTREAM_BROKERS", "127.0.0.1:3")
    done = millstream(*avro)
    assert (done.code, "needs a registry" in done.err, "127.0.0.1:3" in done.err) == (1, False, True)
    profiles = tmp_path / "profiles.toml"
    profiles.write_text('[near]\nbrokers = "127.0.0.1:4"\nregistry = "registry.example"\n')
    monkeypatch.setenv("MILLSTREAM_PROFILES", str(profiles))
    done = millstream(*avro, "--profile", "near")
    assert (done.code, "registry.example" in done.err) == (2, True)
    file = tmp_path / "load.toml"
    file.write_text('brokers = "127.0.0.1:1"\ntopics = ["clicks"]\nto = "lake"\ncheckpoint = "here"\n')
    for more in ((), ("--profile", "near")):
        done = millstream("pipeline", "load", str(file), *more)
        assert (done.code, "127.0.0.1:1" in done.err) == (1, True)
