"""`millstream topic list`: the topics with their partitions, sizes and rates, once or again and again.

Names, partitions and replicas come from confluent-kafka, the figures from our own client, each from any Kafka. A figure that a broker does
not give (a login that may not ask for sizes, a leader that is away) is shown as unknown.
"""

import time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from millstream.cli.kafka_client import REQUEST_SECONDS, Cluster
from millstream.cli.output import format_rate, format_seconds, format_size, format_timestamp, make_table, print_json, print_table
from millstream.cli.parameters import DEFAULT_BROKERS, Brokers, ClientOptions, Every, Output, OutputFormat, Watch
from millstream.errors import UsageError

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

    from millstream.cli.topic.figures import TopicFigures

COLUMNS = ("topic", "partitions", "replicas", "messages", "size", "messages/s", "last write")
RIGHT = ("messages", "size", "messages/s")


def list_topics(
    *,
    internal: Annotated[bool, typer.Option("--internal", help="Also the topics that the brokers keep for themselves.")] = False,
    watch: Watch = False,
    every: Every = 2.0,
    brokers: Brokers = DEFAULT_BROKERS,
    output: OutputFormat = Output.TABLE,
    client_options: ClientOptions = None,
) -> None:
    """List the topics: partitions, replicas, messages, size of one copy, messages per second in the last minute, last write."""
    if watch and output is Output.JSON:
        raise UsageError("--watch draws a table: leave out --output json, or ask for JSON once.")
    cluster = Cluster.of(brokers, client_options)
    admin = cluster.admin()
    with cluster.reader() as reader:
        from millstream.cli.topic.figures import TopicFigures

        figures = TopicFigures(reader)
        if watch:
            from millstream.cli.live import watch as draw

            draw(lambda: make_table(COLUMNS, map(_row, _topics(cluster, admin, figures, internal=internal)), right=RIGHT), every_s=every)
            return
        topics = _topics(cluster, admin, figures, internal=internal)
    if output is Output.JSON:
        print_json(topics)
    else:
        print_table(COLUMNS, map(_row, topics), right=RIGHT)


def _topics(cluster: Cluster, admin: "AdminClient", figures: "TopicFigures", *, internal: bool) -> list[dict[str, Any]]:
    with cluster.plain_errors("listing the topics"):
        metadata = admin.list_topics(timeout=REQUEST_SECONDS)
    shown = {name: topic for name, topic in sorted(metadata.topics.items()) if internal or not name.startswith("__")}
    found = figures.read({name: list(topic.partitions) for name, topic in shown.items()})
    return [
        {
            "topic": name,
            "partitions": len(topic.partitions),
            "replicas": max((len(p.replicas) for p in topic.partitions.values()), default=0),
            "messages": found[name].messages,
            "size_bytes": found[name].size_bytes,
            "messages_per_second": None if found[name].per_second is None else round(found[name].per_second or 0, 3),
            "last_write": None if found[name].last_write_ms is None else format_timestamp(found[name].last_write_ms or 0),
            "last_write_ms": found[name].last_write_ms,
        }
        for name, topic in shown.items()
    ]


def _row(topic: dict[str, Any]) -> list[object]:
    written = topic["last_write_ms"]
    age = None if written is None else max(time.time() - written / 1000, 0.0)
    return [
        topic["topic"],
        topic["partitions"],
        topic["replicas"],
        "-" if topic["messages"] is None else topic["messages"],
        format_size(topic["size_bytes"]),
        format_rate(topic["messages_per_second"]),
        "-" if age is None else f"{format_seconds(age)} ago",
    ]
