"""A load has every message once, at whichever stage it was killed."""

import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import StreamingQueryException

from millstream.audit.verdict import Verdict
from millstream.registry.client import RegistryClient
from millstream.spark.jobs.load.load import start_load
from tests.audit_reports import read_rows
from tests.brokers import Broker
from tests.pipeline.dying_load import DEAD_LETTERS, KILLED_AT, STAGE, STAGES, DyingCommitter, dying_settings
from tests.pipeline.events import write
from tests.pipeline.lake_reading import LOAD_S, load, places
from tests.spark.avro_messages import message, record, register
from tests.spark.topic_content import read
from tests.topics import create_topic

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow

PLACE = ("millstream.topic", "millstream.partition", "millstream.offset")


def test_a_load_that_was_killed_at_every_stage_has_every_message_once(
    spark: "SparkSession", broker: Broker, registry: RegistryClient, registry_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each run dies in the first micro-batch that it does; the one after the last does the rest."""
    topics = [create_topic(broker, partitions=2), create_topic(broker)]
    schema = record(n="int")
    for topic in topics:
        schema_id = register(registry, f"{topic}-value", schema)
        values = [b"bad" if number % 50 == 7 else message(schema_id, schema, {"n": number}) for number in range(120)]
        write(broker, topic, values)
    where = [broker.bootstrap_servers, registry_url, str(tmp_path / "lake"), str(tmp_path / "checkpoint"), *topics]
    settings = dying_settings(*where)
    for stage in STAGES:
        if stage in KILLED_AT:
            command = [sys.executable, "-m", "tests.pipeline.dying_load", stage, *where]
            died = subprocess.run(command, capture_output=True, text=True, timeout=400, check=False, start_new_session=True)
            assert died.returncode == -signal.SIGKILL, died.stderr[-3000:]
        else:
            monkeypatch.setenv(STAGE, stage)
            query = start_load(spark, settings, committer=DyingCommitter)
            with pytest.raises(StreamingQueryException, match=f"Died: {stage}"):
                query.awaitTermination(LOAD_S)
    load(spark, settings)
    good = [(0, number) for number in range(120) if number % 50 != 7]
    for topic in topics:
        assert places(settings, topic) == good
        lake = [row for row in read_rows(broker.bootstrap_servers, topic, with_log=True) if row.tier.name == "lake"]
        assert (sum(row.count for row in lake), sum(row.malformed for row in lake)) == (120, 3)
        assert {(row.missing, row.surplus, row.verdict) for row in lake} == {(0, 0, Verdict.COMPLETE)}
    dead = {(letter.value, *(value for name, value in letter.headers or () if name in PLACE)) for letter in read(broker, DEAD_LETTERS)}
    assert dead == {(b"bad", topic.encode(), b"0", b"%d" % number) for topic in topics for number in range(7, 120, 50)}
