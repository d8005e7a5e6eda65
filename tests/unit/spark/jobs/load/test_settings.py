from pathlib import Path
from typing import Any

import pytest

from millstream.errors import UsageError
from millstream.spark.jobs.load.settings import LoadSettings


def settings(**given: Any) -> LoadSettings:
    return LoadSettings(**{"brokers": "127.0.0.1:9092", "topics": ("clicks",), "to": "lake", "checkpoint": "here", **given})


def test_settings_travel_as_text_without_secrets() -> None:
    whole = settings(topics=("a", "b"), kafka={"sasl.password": "hush"}, table="iceberg", catalog={"token": "shh"}, audit="lake")
    assert "hush" not in whole.document()
    assert "shh" not in whole.document()
    assert "hush" not in repr(whole)
    assert "shh" not in repr(whole)
    assert LoadSettings.of(whole.document(), kafka=whole.kafka, catalog=whole.catalog) == whole
    assert whole.read_options()["kafka.sasl.password"] == "hush"


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"topics": ()}, "name at least one"),
        ({"topics": ("..",)}, "not the name of a topic"),
        ({"value_format": "json"}, "needs a value-schema"),
        ({"value_schema": "n INT"}, "goes with value-format json"),
        ({"key_format": "json"}, "key-format json needs a key-schema"),
        ({"key_format": "avro"}, "key-format avro needs a registry"),
        ({"to": " "}, "to: it is empty"),
        ({"table": "detla"}, "none of delta, parquet, iceberg. Did you mean 'delta'?"),
        ({"catalog": {"uri": "x"}}, "only Iceberg tables have one"),
        ({"sql": "SELECT 1"}, "does not read the messages"),
        ({"sql": "SELECT * FROM messages", "topics": ("a", "b")}, "takes one topic"),
        ({"sql": "SELECT * FROM messages", "dead_letters": "bad"}, "ends at a malformed message"),
        ({"sql": "SELECT * FROM messages", "table": "parquet"}, "goes with Delta and Iceberg"),
        ({"value_format": "avro", "registry": "localhost"}, "localhost"),
        ({"batch_messages": 0}, "above zero"),
        ({"every": "2 days"}, "give a day at most"),
        ({"every": "soon"}, "is not a duration"),
        ({"to": "per%20cent"}, "use a directory without it"),
        ({"dead_letters": "bad letters"}, "dead-letters 'bad letters': .* no name of one"),
        ({"topics": ("t" * 249,)}, "dead-letters 't+-dead-letters': .* Give another"),
        ({"name": "two words"}, "name: 'two words' cannot be a job's"),
        ({"audit": "two words"}, "no name of a tier"),
        ({"table": "parquet", "dead_letters": "bad"}, "ends at a malformed message"),
        ({"table": "parquet", "value_format": "avro", "registry": "http://a:1", "topics": ("a", "b")}, "takes one topic"),
    ],
)
def test_what_cannot_be_done_is_said(given: dict[str, Any], problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        settings(**given)


def test_dead_letters_have_a_topic_of_their_own() -> None:
    assert settings().dead_letter_topic("clicks") == "clicks-dead-letters"
    assert settings(dead_letters="bad").dead_letter_topic("clicks") == "bad"
    longest = "t" * 249
    assert settings(topics=(longest,), dead_letters="bad").topics == settings(topics=(longest,), fail_on_malformed=True).topics


def test_a_load_is_named_after_its_checkpoint_unless_it_has_a_name() -> None:
    assert settings(name="lake").group == "millstream-pipeline-lake"
    names = {settings(checkpoint=place).job_name for place in ("a/lake", "b/lake", "/a/lake", "hdfs://nn/lake")}
    assert len(names) == 4
    assert all(name.startswith("lake-") for name in names)


def test_paths_are_whole_for_tasks_that_run_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    found = settings(to="lake", checkpoint="hdfs://nn/checkpoint").located()
    assert (found.to, found.checkpoint) == (str(tmp_path / "lake"), "hdfs://nn/checkpoint")
    assert settings().job_name == settings().located().job_name
