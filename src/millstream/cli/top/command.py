"""`millstream top`: what a cluster is doing, again and again: topics in and out, groups, connections, requests.

From any Kafka: how fast topics grow, how large they are, how groups are. From Millstream also bytes in and out, connections and requests,
which its brokers publish (`metrics_page`), every ten seconds unless they are started with another `--metrics-interval`.
"""

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from millstream.cli.group.known_group import Groups
from millstream.cli.group.listing import COLUMNS as GROUP_COLUMNS
from millstream.cli.group.listing import RIGHT as GROUP_RIGHT
from millstream.cli.group.listing import GroupListing, cells
from millstream.cli.group.paper_groups import Zookeeper
from millstream.cli.kafka_client import Cluster
from millstream.cli.live import watch
from millstream.cli.output import format_rate, format_seconds, format_size, make_table
from millstream.cli.parameters import DEFAULT_BROKERS, Brokers, ClientOptions
from millstream.cli.top.metrics_page import PORT, MetricsPage, fetch_page, together
from millstream.cli.top.rates import MetricsRates
from millstream.errors import UsageError

if TYPE_CHECKING:
    from rich.console import RenderableType

    from millstream.cli.partition_reader import PartitionReader
    from millstream.cli.topic.figures import Figures
    from millstream.client.codecs.metadata import ClusterMetadata

MOST_TOPICS = 15
MOST_GROUPS = 10
MOST_REQUESTS = 6
TOPIC_COLUMNS = ("topic", "messages/s", "in/s", "out/s", "messages", "size", "last write")
REQUEST_COLUMNS = ("request", "per second", "99 % within")
WORST_FIRST = ("dead", "stuck", "slow", "unknown", "ok")


def top(
    *,
    every: Annotated[float, typer.Option("--every", metavar="SECONDS", min=0.1, help="How often to look.")] = 2.0,
    count: Annotated[int | None, typer.Option("-n", "--count", min=1, help="Draw it so often, and end.", show_default="endless")] = None,
    metrics: Annotated[
        str | None,
        typer.Option(
            "--metrics",
            metavar="URL[,...]",
            envvar="MILLSTREAM_METRICS",
            help="Where Millstream's brokers publish their metrics.",
            show_default=f"http://HOST:{PORT} of each broker",
        ),
    ] = None,
    zookeeper: Zookeeper = None,
    brokers: Brokers = DEFAULT_BROKERS,
    client_options: ClientOptions = None,
) -> None:
    """Watch a cluster: topics in and out, groups, connections and requests, until Ctrl-C."""
    urls = [url.strip() for url in metrics.split(",")] if metrics else None
    for url in urls or []:
        if not url.startswith(("http://", "https://")):
            raise UsageError(f"--metrics {url} is no address of a page: write it as http://HOST:{PORT}.")
    cluster = Cluster.of(brokers, client_options)
    groups = Groups(cluster, zookeeper)
    with cluster.reader() as reader:
        view = TopView(groups, reader, urls)
        watch(view.picture, every_s=every, count=count)


class TopView:
    """Reads everything anew for each picture."""

    def __init__(self, groups: Groups, reader: "PartitionReader", urls: Sequence[str] | None) -> None:
        from millstream.cli.topic.figures import TopicFigures

        self._groups = groups
        self._reader = reader
        self._urls = urls
        self._figures = TopicFigures(reader)
        self._listing = GroupListing(groups, reader)
        self._rates = MetricsRates()
        self._missing: list[str] = []
        """The pages that were asked for and did not come."""

    def picture(self) -> "RenderableType":
        """How the cluster is now."""
        from rich.console import Group

        metadata = self._reader.metadata()
        pages = self._pages(metadata)
        topics = {name: list(topic.partitions) for name, topic in metadata.topics.items() if not name.startswith("__")}
        self._groups.partitions = {name: sorted(topic.partitions) for name, topic in metadata.topics.items()}
        figures = self._figures.read(topics)
        self._rates.note(together([page for page in pages if self._urls is not None or page.is_about(self._figures.ends)]))
        parts: list[RenderableType] = [self._summary(metadata), "", self._topics(figures), self._group_table()]
        if self._rates.requests:
            parts.append(self._requests())
        return Group(*parts)

    def _pages(self, metadata: "ClusterMetadata") -> list[MetricsPage]:
        urls = self._urls or sorted({f"http://{address.host}:{PORT}" for address in metadata.brokers.values()})
        now = time.monotonic()
        pages = {url: fetch_page(url, now=now) for url in urls}
        self._missing = [url for url in self._urls or () if pages[url] is None]
        return [page for page in pages.values() if page is not None]

    def _summary(self, metadata: "ClusterMetadata") -> str:
        facts = [
            time.strftime("%H:%M:%S"),
            self._groups.cluster.brokers,
            _count(len(metadata.brokers), "broker"),
            _count(len(metadata.topics), "topic"),
            _count(sum(len(topic.partitions) for topic in metadata.topics.values()), "partition"),
        ]
        page = self._rates.page
        if page is not None:
            facts.append(_count(page.connections, "connection"))
        if self._rates.requests:
            facts += [
                f"{format_rate(sum(self._rates.requests.values()))} requests/s",
                f"in {format_size(sum(self._rates.bytes_in.values()))}/s",
                f"out {format_size(sum(self._rates.bytes_out.values()))}/s",
            ]
        if self._missing:
            facts.append(f"no metrics at {', '.join(self._missing)}")
        return "  ".join(facts)

    def _topics(self, figures: "Mapping[str, Figures]") -> "RenderableType":
        busiest = sorted(figures.items(), key=lambda item: (-(item[1].per_second or 0), -(item[1].last_write_ms or 0), item[0]))
        rows = [self._topic_cells(name, found) for name, found in busiest[:MOST_TOPICS]]
        rest = len(busiest) - len(rows)
        title = f"topics, the {MOST_TOPICS} busiest of {len(busiest)}" if rest > 0 else "topics"
        return make_table(TOPIC_COLUMNS, rows, title=title, right=TOPIC_COLUMNS[1:])

    def _topic_cells(self, name: str, found: "Figures") -> list[object]:
        age = None if found.last_write_ms is None else max(time.time() - found.last_write_ms / 1000, 0.0)
        flows = [rates.get(name) for rates in (self._rates.bytes_in, self._rates.bytes_out)]
        return [
            name,
            format_rate(found.per_second),
            *(format_size(flow) for flow in flows),
            "-" if found.messages is None else found.messages,
            format_size(found.size_bytes),
            "-" if age is None else f"{format_seconds(age)} ago",
        ]

    def _group_table(self) -> "RenderableType":
        rows = sorted(self._listing.again(), key=lambda row: (WORST_FIRST.index(row["is"]), -(row["lag"] or 0)))
        title = f"groups, {MOST_GROUPS} of {len(rows)}" if len(rows) > MOST_GROUPS else "groups"
        return make_table(GROUP_COLUMNS, map(cells, rows[:MOST_GROUPS]), title=title, right=GROUP_RIGHT)

    def _requests(self) -> "RenderableType":
        page = self._rates.page
        slowest: Mapping[str, Any] = {} if page is None else page.slowest_ms
        busiest = sorted(self._rates.requests.items(), key=lambda item: -item[1])[:MOST_REQUESTS]
        rows = [[name, format_rate(rate), f"{slowest[name]:.1f} ms" if name in slowest else "-"] for name, rate in busiest]
        return make_table(REQUEST_COLUMNS, rows, title="requests", right=REQUEST_COLUMNS[1:])


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
