"""Loads in tests, and the tables that they made, read back."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from deltalake import DeltaTable

from millstream.spark.jobs.load.load import start_load
from millstream.spark.jobs.load.settings import LoadSettings
from millstream.spark.jobs.running.batch_progress import BatchCounts
from tests.brokers import Broker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOAD_S = 300


def settings_for(broker: Broker, tmp_path: Path, *topics: str, **settings: Any) -> LoadSettings:
    """A load of these topics that ends by itself."""
    given: dict[str, Any] = {"once": True, "to": str(tmp_path / "lake"), "checkpoint": str(tmp_path / "checkpoint")} | settings
    return LoadSettings(brokers=broker.bootstrap_servers, topics=topics, **given)


def load(spark: "SparkSession", settings: LoadSettings) -> BatchCounts:
    """Load what is there."""
    progress = BatchCounts()
    query = start_load(spark, settings, progress)
    assert query.awaitTermination(LOAD_S), "the load did not end"
    return progress


def table(settings: LoadSettings, name: str | None = None) -> DeltaTable:
    """The table of a topic."""
    return DeltaTable(f"{settings.to}/{name or settings.topics[0]}")


def rows(settings: LoadSettings, name: str | None = None) -> list[dict[str, Any]]:
    """Its rows, by partition and offset."""
    found: list[dict[str, Any]] = table(settings, name).to_pyarrow_table().to_pylist()
    return sorted(found, key=lambda row: (row["kafka_partition"], row["kafka_offset"]))


def places(settings: LoadSettings, name: str | None = None) -> list[tuple[int, int]]:
    """Partition and offset of each row."""
    return [(row["kafka_partition"], row["kafka_offset"]) for row in rows(settings, name)]


def query_id(settings: LoadSettings) -> str:
    """The id that Spark's checkpoint gives the load."""
    found: str = json.loads(Path(settings.checkpoint, "metadata").read_text())["id"]
    return found
