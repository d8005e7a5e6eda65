"""From what was measured on one machine to what larger loads need: the arithmetic of docs/scale.md, which a test computes again.

    python -m bench.scale                prints the tables of the page

`MEASURED` is read from bench/results, or was measured as its note says; `ASSUMED` is open to other opinions: change it, and print
the tables again. Nothing here is a promise: what is calculated was never run.
"""

import json
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

RESULTS: Final = Path(__file__).parent / "results"
DAY_S: Final = 86_400
MILLION: Final = 1_000_000
GIGABYTE: Final = 1_000_000_000


class Figure(NamedTuple):
    """One measured figure, and where it is from."""

    value: float
    unit: str
    source: str


def _result(file: str, case: str, metric: str) -> Figure:
    rows = json.loads((RESULTS / file).read_text())["rows"]
    [row] = [row for row in rows if row["case"] == case and row["metric"] == metric]
    return Figure(float(row["millstream"]), row["unit"], f"bench/results/{file}")


_LAKE: Final = "two cores, `local[2]`; no file of it is kept"
MEASURED: Final = {
    "broker CPU, 3 replicas, batches of 50": _result("20261116-090503-cluster.json", "replicated-50", "CPU of all brokers"),
    "broker CPU of one reader": _result("20261116-015327-single.json", "consume", "broker CPU"),
    "load into Delta, two cores": _result("20261116-123510-pipeline.json", "pipeline-load", "delta"),
    "a row in the table, zstd": Figure(217 / 4, "bytes", f"217 MB for 4 M rows of 196 bytes; {_LAKE}"),
    "windows per page, two cores": Figure(380_000, "rows/s", f"the lowest of 380-510 k; RocksDB; {_LAKE}"),
    "join of two streams, two cores": Figure(46_000, "rows/s", f"the lowest of 46-52 k; RocksDB; {_LAKE}"),
    "de-duplication, two cores": Figure(142_000, "rows/s", f"the lowest of 142-181 k; RocksDB; {_LAKE}"),
    "state of a row that waits for a join": Figure(783 / 2, "bytes", f"783 MB for 2 M rows, heap; {_LAKE}"),
    "compacting a table, two cores": Figure(4 * MILLION / 3.7, "rows/s", f"4 M rows in 2.0-3.7 s; {_LAKE}"),
}


@dataclass(frozen=True)
class Assumed:
    """What was not measured."""

    message_bytes: int = 200
    peak: float = 3.0
    """The busiest moment, in times of the average."""
    readers: int = 4
    """Mirror, load, windows, join."""
    busy: float = 0.5
    """How much of a core's, disk's or wire's best is planned with."""
    replicas: int = 3
    retention_days: int = 7
    disk_bytes: int = 16_000 * GIGABYTE
    """Of one broker."""
    wire_bytes_s: float = 1.25 * GIGABYTE
    """10 Gbit/s, of one broker, each way."""
    partition_bytes_s: float = 10_000_000
    every_s: int = 60
    """A load's micro-batch begins so often."""
    file_bytes: int = 256_000_000
    """Of a file after `maintain`."""
    deduplicated_s: int = 300
    joined_s: int = 900
    """Watermark, and watermark and `within`: 5 minutes, 5 and 10."""
    deduplicated_bytes: int = 100
    """State of one key: its bytes and those around them."""
    tables: int = 20
    """Topics that a load writes to."""


ASSUMED: Final = Assumed()


@dataclass(frozen=True)
class Load:
    """Messages of a day."""

    name: str
    messages: float
    assumed: Assumed = field(default=ASSUMED)

    @property
    def average(self) -> float:
        """Messages per second."""
        return self.messages / DAY_S

    @property
    def peak(self) -> float:
        """In the busiest second."""
        return self.average * self.assumed.peak

    @property
    def bytes_day(self) -> float:
        """What producers send."""
        return self.messages * self.assumed.message_bytes

    def cores(self, figure: str) -> int:
        """Cores that keep up with the peak, by a rate that was measured on two of them."""
        return max(math.ceil(self.peak / (MEASURED[figure].value / 2 * self.assumed.busy)), 1)

    @property
    def broker_cores(self) -> float:
        """CPU seconds per second of all brokers, at the peak."""
        reading = MEASURED["broker CPU of one reader"].value * self.assumed.readers
        return self.peak / MILLION * (MEASURED["broker CPU, 3 replicas, batches of 50"].value + reading)

    @property
    def stored(self) -> float:
        """Bytes on the disks of all brokers, uncompressed."""
        return self.bytes_day * self.assumed.retention_days * self.assumed.replicas

    @property
    def brokers(self) -> dict[str, int]:
        """How many each limit asks for; the largest counts."""
        a = self.assumed
        out = self.peak * a.message_bytes * (a.replicas - 1 + a.readers)
        return {
            "replicas": a.replicas,
            "CPU": math.ceil(self.broker_cores / a.busy),
            "network": math.ceil(out / (a.wire_bytes_s * a.busy)),
            "disk": math.ceil(self.stored / a.disk_bytes),
        }

    @property
    def partitions(self) -> int:
        """Of all topics; at least one for each."""
        return max(math.ceil(self.peak * self.assumed.message_bytes / self.assumed.partition_bytes_s), self.assumed.tables)

    @property
    def rows_per_file(self) -> float:
        """Rows of one file of a load, on average: a micro-batch of one table, in as many files as it has tasks."""
        tasks = max(self.cores("load into Delta, two cores") / self.assumed.tables, 1)
        return self.average * self.assumed.every_s / self.assumed.tables / tasks

    @property
    def files_per_hour(self) -> float:
        """Before `maintain`, without those of late rows."""
        return self.average * 3600 / self.rows_per_file

    @property
    def kept_files_per_hour(self) -> float:
        """After it; every table has at least one for each hour."""
        return max(self.table_bytes_day / 24 / self.assumed.file_bytes, self.assumed.tables)

    @property
    def table_bytes_day(self) -> float:
        """Of the tables."""
        return self.messages * MEASURED["a row in the table, zstd"].value

    @property
    def maintain_share(self) -> float:
        """The part of each hour that two cores need to compact it."""
        return self.average / MEASURED["compacting a table, two cores"].value

    @property
    def deduplicated_state(self) -> float:
        """Bytes, at the peak."""
        return self.peak * self.assumed.deduplicated_s * self.assumed.deduplicated_bytes

    @property
    def joined_state(self) -> float:
        """Bytes, at the peak."""
        return self.peak * self.assumed.joined_s * MEASURED["state of a row that waits for a join"].value


LOADS: Final = (Load("the paper's day", 1e9), Load("ten times", 1e10), Load("a hundred times", 1e11))

LINES: Final[tuple[tuple[str, Callable[[Load], str]], ...]] = (
    ("messages a day", lambda load: _count(load.messages)),
    ("messages a second, average and peak", lambda load: f"{_count(load.average)}, {_count(load.peak)}"),
    ("from producers, a day", lambda load: _size(load.bytes_day)),
    ("**brokers**", lambda load: f"**{max(load.brokers.values())}**"),
    ("of these for replicas / CPU / network / disk", lambda load: " / ".join(map(str, load.brokers.values()))),
    ("busy cores of all brokers at the peak", lambda load: f"{load.broker_cores:.2g}"),
    ("on their disks", lambda load: _size(load.stored)),
    ("**partitions**", lambda load: f"**{load.partitions}**"),
    ("**cores of executors**: load", lambda load: f"**{load.cores('load into Delta, two cores')}**"),
    ("windows", lambda load: f"**{load.cores('windows per page, two cores')}**"),
    ("de-duplication before them", lambda load: f"**{load.cores('de-duplication, two cores')}**"),
    ("join of two streams", lambda load: f"**{load.cores('join of two streams, two cores')}**"),
    ("**in the tables**, a day", lambda load: _size(load.table_bytes_day)),
    ("**files an hour** before `maintain`", lambda load: f"**{_count(load.files_per_hour)}**"),
    ("rows in one of them", lambda load: _count(load.rows_per_file)),
    ("files an hour after it", lambda load: _count(load.kept_files_per_hour)),
    ("`maintain` on two cores, of each hour", lambda load: f"{load.maintain_share:.1%}"),
    ("**state** of de-duplication", lambda load: _size(load.deduplicated_state)),
    ("state of the join", lambda load: _size(load.joined_state)),
)


def tables() -> list[str]:
    """The tables of the page."""
    measured = [f"| {name} | {_figure(figure)} | {figure.source} |" for name, figure in MEASURED.items()]
    return [
        _table("| measured | | where |", "|---|---:|---|", measured),
        _table(
            f"| calculated | {' | '.join(load.name for load in LOADS)} |",
            "|---|" + "---:|" * len(LOADS),
            (f"| {name} | {' | '.join(show(load) for load in LOADS)} |" for name, show in LINES),
        ),
    ]


def _table(head: str, rule: str, lines: Iterable[str]) -> str:
    return "\n".join([head, rule, *lines])


def _figure(figure: Figure) -> str:
    return f"{_count(figure.value) if figure.value >= 1000 else f'{figure.value:.3g}'} {figure.unit}"


def _count(number: float) -> str:
    return _scaled(number, (("", 1), (" k", 1e3), (" M", 1e6), (" G", 1e9)))


def _size(number: float) -> str:
    return _scaled(number, ((" B", 1), (" kB", 1e3), (" MB", 1e6), (" GB", 1e9), (" TB", 1e12)))


def _scaled(number: float, units: Iterable[tuple[str, float]]) -> str:
    name, unit = [(name, unit) for name, unit in units if number >= unit or unit == 1][-1]
    value = number / unit
    return f"{value:,.0f}{name}" if value >= 10 else f"{value:.3g}{name}"


if __name__ == "__main__":
    print("\n\n".join(tables()))
