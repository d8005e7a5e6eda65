"""The Spark of the benchmark: one session of two cores for all cases, and Spark's own Kafka connector to compare with.

The connector's jars come from Maven once, into a git-ignored cache, without the jars that PySpark brings itself. Where they cannot be had
the cases measure our source alone. Version 4.2.0 of the connector runs on PySpark 4.3; its companion for tokens, which nothing here uses,
is to be had only as 4.0.0. Spark's Avro, for `from_avro`, is to be had as 4.1.1.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Final

from bench.maven import fetch_jars
from millstream.spark.session import start_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_CACHES: Final = Path(__file__).parents[1] / ".cache"
_CONNECTOR: Final = (
    ("org.apache.spark", "spark-sql-kafka-0-10_2.13", "4.2.0"),
    ("org.apache.spark", "spark-token-provider-kafka-0-10_2.13", "4.0.0"),
    ("org.apache.kafka", "kafka-clients", "3.9.0"),
    ("org.apache.commons", "commons-pool2", "2.12.0"),
)
_AVRO: Final = (("org.apache.spark", "spark-avro_2.13", "4.1.1"),)
_DEPENDENCY: Final = (
    "<dependency><groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version>"
    "<exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions></dependency>"
)
_POM: Final = (
    '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>'
    "<groupId>millstream.bench</groupId><artifactId>spark-kafka</artifactId><version>1</version>"
    "<dependencies>{}</dependencies></project>"
)
Artifacts = tuple[tuple[str, str, str], ...]
_sessions: "list[SparkSession]" = []


def connector_jars() -> list[Path]:
    """The jars of Spark's own connector that the cache has: all of them, or none."""
    return _cached("spark-kafka-4.2.0", _CONNECTOR)


def avro_jars() -> list[Path]:
    """The jar of Spark's own Avro functions, if the cache has it."""
    return _cached("spark-avro-4.1.1", _AVRO)


def fetch_connector() -> None:
    """Fill the caches through Maven, unless they are full; BenchError says why not."""
    for cache, artifacts in (("spark-kafka-4.2.0", _CONNECTOR), ("spark-avro-4.1.1", _AVRO)):
        if not _cached(cache, artifacts):
            pom = _POM.format("".join(_DEPENDENCY.format(*artifact) for artifact in artifacts))
            fetch_jars(_CACHES / cache, pom, what=", ".join(name for _, name, _ in artifacts))


def _cached(cache: str, artifacts: Artifacts) -> list[Path]:
    jars = [_CACHES / cache / "libs" / f"{name}-{version}.jar" for _, name, version in artifacts]
    return jars if all(jar.exists() for jar in jars) else []


def session() -> "SparkSession":
    """The session of all cases; two cores, started when first asked for."""
    if not _sessions:
        options = {
            "spark.driver.memory": "2g",
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            "spark.sql.shuffle.partitions": "2",
        }
        if jars := [*connector_jars(), *avro_jars()]:
            options["spark.jars"] = ",".join(map(str, jars))
        started = start_session("millstream-bench", master="local[2]", options=options)
        started.sparkContext.setLogLevel("ERROR")
        _sessions.append(started)
    return _sessions[0]
