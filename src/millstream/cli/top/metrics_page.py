"""The page of metrics that a Millstream broker publishes: fetched, and read as far as `top` needs it (docs/monitoring.md).

Apache Kafka has no such page; then there are no figures about bytes, connections and requests. An address that was not given is guessed, so
it has to be checked that the page is about this cluster: a page that knows a topic which the cluster does not have, or an offset behind the
end of its partition, is another's.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from millstream.topic_partition import TopicPartition

PORT: Final = 9308
TIMEOUT_S: Final = 1.0
MOST_BYTES: Final = 64 << 20

BYTES_IN: Final = "kafka_server_brokertopicmetrics_bytesin_total"
BYTES_OUT: Final = "kafka_server_brokertopicmetrics_bytesout_total"
CONNECTIONS: Final = "kafka_server_socket_server_metrics_connection_count"
ENDS: Final = "kafka_topic_partition_current_offset"
REQUESTS: Final = "kafka_network_requestmetrics_totaltimems_count"
TIMES: Final = "kafka_network_requestmetrics_totaltimems"
AGE: Final = "millstream_sample_age_seconds"
READ: Final = frozenset({BYTES_IN, BYTES_OUT, CONNECTIONS, ENDS, REQUESTS, TIMES, AGE})
_LINE: Final = re.compile(r"(?P<name>\w+)(?:\{(?P<labels>.*)\})? (?P<value>\S+)")
_LABEL: Final = re.compile(r'(\w+)="((?:\\.|[^"\\])*)"')
_ESCAPE: Final = re.compile(r"\\.")
_ESCAPES: Final = {r"\\": "\\", r"\"": '"', r"\n": "\n"}

Labels = Mapping[str, str]


@dataclass(frozen=True)
class MetricsPage:
    """The figures of one broker, or of several together."""

    sampled_at: float
    """When they were so, in seconds of any clock."""
    bytes_in: Mapping[str, float] = field(default_factory=dict)
    bytes_out: Mapping[str, float] = field(default_factory=dict)
    requests: Mapping[str, float] = field(default_factory=dict)
    slowest_ms: Mapping[str, float] = field(default_factory=dict)
    """The 99th percentile of each request."""
    connections: int = 0
    ends: Mapping[TopicPartition, int] = field(default_factory=dict)
    """Of all topics but internal ones."""

    def is_about(self, ends: Mapping[TopicPartition, int]) -> bool:
        """Whether this can be a page of the cluster whose partitions end there, asked after the page was written."""
        return all(place in ends and offset <= ends[place] for place, offset in self.ends.items())


def parse_page(text: str, *, now: float) -> MetricsPage:
    """The page of a broker, fetched now."""
    found: dict[str, list[tuple[Labels, float]]] = {name: [] for name in READ}
    for name, labels, value in _series(text):
        found[name].append((labels, value))
    return MetricsPage(
        now - sum(value for _, value in found[AGE]),
        _by(found[BYTES_IN], "topic"),
        _by(found[BYTES_OUT], "topic"),
        _by(found[REQUESTS], "request"),
        _by([(labels, value) for labels, value in found[TIMES] if labels.get("quantile") == "0.99"], "request"),
        round(sum(value for _, value in found[CONNECTIONS])),
        {
            TopicPartition(labels["topic"], int(labels["partition"])): round(value)
            for labels, value in found[ENDS]
            if not labels["topic"].startswith("__")
        },
    )


def together(pages: Sequence[MetricsPage]) -> MetricsPage | None:
    """The sums over brokers, and of times the longest; as old as the oldest page."""
    if not pages:
        return None
    return MetricsPage(
        min(page.sampled_at for page in pages),
        _sums([page.bytes_in for page in pages]),
        _sums([page.bytes_out for page in pages]),
        _sums([page.requests for page in pages]),
        {name: max(page.slowest_ms.get(name, 0.0) for page in pages) for page in pages for name in page.slowest_ms},
        sum(page.connections for page in pages),
    )


def fetch_page(url: str, *, now: float) -> MetricsPage | None:
    """The page at an address; None if there is none."""
    from http.client import HTTPException
    from urllib.request import urlopen

    try:
        with urlopen(f"{url.rstrip('/')}/metrics", timeout=TIMEOUT_S) as answer:  # noqa: S310 - the scheme is checked by the command
            return parse_page(answer.read(MOST_BYTES).decode(errors="replace"), now=now)
    except (OSError, HTTPException, ValueError, KeyError, OverflowError):
        return None


def _series(text: str) -> Iterator[tuple[str, Labels, float]]:
    for line in text.splitlines():
        if line.partition("{")[0].partition(" ")[0] not in READ:
            continue
        match = _LINE.fullmatch(line)
        if match is not None:
            labels = {name: _ESCAPE.sub(_unescaped, value) for name, value in _LABEL.findall(match["labels"] or "")}
            yield match["name"], labels, float(match["value"])


def _unescaped(escape: "re.Match[str]") -> str:
    return _ESCAPES.get(escape[0], escape[0])


def _by(series: Sequence[tuple[Labels, float]], label: str) -> dict[str, float]:
    sums: dict[str, float] = {}
    for labels, value in series:
        name = labels.get(label)
        if name is not None and value == value:  # noqa: PLR0124 - a quantile without requests is not a number
            sums[name] = sums.get(name, 0.0) + value
    return sums


def _sums(figures: Sequence[Mapping[str, float]]) -> dict[str, float]:
    sums: dict[str, float] = {}
    for one in figures:
        for name, value in one.items():
            sums[name] = sums.get(name, 0.0) + value
    return sums
