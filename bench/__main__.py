"""The command `python -m bench`: chooses cases and peers, runs them, prints and saves the table.

python -m bench single --quick          small sizes, one round: does everything work?
python -m bench single                  the core table, three rounds: figures to quote
python -m bench scaling --only log      only cases whose name begins with "log"
python -m bench all --no-kafka          everything, Millstream alone
"""

import os
import platform
import resource
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from datetime import UTC, datetime
from fnmatch import fnmatch
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from bench.case import BenchError, Case
from bench.peers.kafka import Kafka, KafkaCluster, find_jars
from bench.peers.millstream import Millstream, MillstreamCluster
from bench.peers.service import Kind
from bench.runner import Runner
from bench.spark_session import fetch_connector
from bench.suites import FULL, QUICK, SUITES
from bench.table import build_rows, render, save

RESULTS = Path(__file__).parent / "results"
# Wide enough for the table also where output is not a terminal.
console = Console(width=None if Console().is_terminal else 150, highlight=False)
app = typer.Typer(help="Benchmarks of Millstream beside Apache Kafka: ratios in one run.", no_args_is_help=True, add_completion=False)

Quick = Annotated[bool, typer.Option("--quick", help="Small sizes and one round: to see that it works, not for figures.")]
WithKafka = Annotated[bool, typer.Option("--kafka/--no-kafka", help="Run Apache Kafka beside Millstream.")]
WithMillstream = Annotated[bool, typer.Option("--millstream/--no-millstream", help="Run Millstream.")]
Only = Annotated[list[str] | None, typer.Option("--only", help="Cases by name, its beginning or a pattern; may be repeated.")]
Rounds = Annotated[int, typer.Option("--rounds", min=0, max=20, help="Rounds per case; 0 means 3, or 1 with --quick.")]
Warm = Annotated[bool, typer.Option("--warm", help="Measure only when the cost of the work holds still: a JVM at its best.")]
Option = Annotated[list[str] | None, typer.Option("-X", help="A Millstream option, name=value; may be repeated.")]
Scratch = Annotated[Path | None, typer.Option("--directory", help="Where the brokers keep their data while the benchmark runs.")]


@app.command()
def single(*, quick: Quick = False, kafka: WithKafka = True, millstream: WithMillstream = True, only: Only = None, rounds: Rounds = 0,
           warm: Warm = False, option: Option = None, directory: Scratch = None) -> None:  # fmt: skip
    """The core table: start-up, produce, consume, latency, memory with one broker and one partition."""
    _run(["single"], quick=quick, only=only, rounds=rounds, warm=warm, peers=_peers(kafka, millstream, options=option), directory=directory)


@app.command()
def cluster(*, quick: Quick = False, kafka: WithKafka = True, millstream: WithMillstream = True, only: Only = None, rounds: Rounds = 0,
            warm: Warm = False, option: Option = None, directory: Scratch = None) -> None:  # fmt: skip
    """Three brokers, three replicas, acks=all: produce, latency, memory, failover, many leaders, a follower that missed much."""
    session_timeout_ms = (QUICK if quick else FULL).session_timeout_ms
    peers = _chosen(
        (lambda: MillstreamCluster(option or (), session_timeout_ms=session_timeout_ms)) if millstream else None,
        (lambda: KafkaCluster(session_timeout_ms=session_timeout_ms)) if kafka else None,
    )
    _run(["cluster"], quick=quick, only=only, rounds=rounds, warm=warm, peers=peers, directory=directory)


@app.command()
def scaling(*, quick: Quick = False, kafka: WithKafka = True, millstream: WithMillstream = True, only: Only = None, rounds: Rounds = 0,
            option: Option = None, directory: Scratch = None) -> None:  # fmt: skip
    """How cost grows: connections, size of the log, partitions, restarts."""
    _run(["scaling"], quick=quick, only=only, rounds=rounds, peers=_peers(kafka, millstream, options=option), directory=directory)


@app.command()
def groups(*, quick: Quick = False, kafka: WithKafka = True, millstream: WithMillstream = True, only: Only = None, rounds: Rounds = 0,
           option: Option = None, directory: Scratch = None) -> None:  # fmt: skip
    """Consumer groups: rebalances of 2, 10 and 50 members, commits, offsets after a restart."""
    _run(["groups"], quick=quick, only=only, rounds=rounds, peers=_peers(kafka, millstream, options=option), directory=directory)


@app.command()
def neighbours(*, quick: Quick = False, kafka: WithKafka = True, millstream: WithMillstream = True, only: Only = None, rounds: Rounds = 0,
               option: Option = None, directory: Scratch = None) -> None:  # fmt: skip
    """The slowest answer to a small request while another client sends the worst that is allowed."""
    _run(["neighbours"], quick=quick, only=only, rounds=rounds, peers=_peers(kafka, millstream, options=option), directory=directory)


@app.command()
def compaction(*, quick: Quick = False, kafka: WithKafka = True, millstream: WithMillstream = True, only: Only = None, rounds: Rounds = 0,
               option: Option = None, directory: Scratch = None) -> None:  # fmt: skip
    """How fast a log is compacted, and whether other clients feel it."""
    _run(["compaction"], quick=quick, only=only, rounds=rounds, peers=_peers(kafka, millstream, options=option), directory=directory)


@app.command()
def client(*, quick: Quick = False, only: Only = None, rounds: Rounds = 0, option: Option = None, directory: Scratch = None) -> None:
    """The client of the paper: beside confluent-kafka alone, and its groups on a real ZooKeeper. Without Apache Kafka."""
    _run(["client"], quick=quick, only=only, rounds=rounds, peers=[Millstream(option or ())], directory=directory)


@app.command()
def audit(*, quick: Quick = False, only: Only = None, rounds: Rounds = 0, option: Option = None, directory: Scratch = None) -> None:
    """The audit: counting in a producer and in the auditor, and a report over many topics. Without Apache Kafka."""
    _run(["audit"], quick=quick, only=only, rounds=rounds, peers=[Millstream(option or ())], directory=directory)


@app.command()
def metrics(*, quick: Quick = False, only: Only = None, rounds: Rounds = 0, option: Option = None, directory: Scratch = None) -> None:
    """Metrics: CPU of samples and scrapes, and what other clients feel of them. Without Apache Kafka."""
    _run(["metrics"], quick=quick, only=only, rounds=rounds, peers=[Millstream(option or ())], directory=directory)


@app.command()
def processes(*, quick: Quick = False, only: Only = None, rounds: Rounds = 0, option: Option = None, directory: Scratch = None) -> None:
    """Several brokers of one machine: start, memory, and CPU per message beside one process. Without Apache Kafka."""
    _run(["processes"], quick=quick, only=only, rounds=rounds, peers=[Millstream(option or ())], directory=directory)


@app.command()
def registry(*, quick: Quick = False, kafka: WithKafka = False, millstream: WithMillstream = True, only: Only = None, rounds: Rounds = 0,
             option: Option = None, directory: Scratch = None) -> None:  # fmt: skip
    """The schema registry: look-ups, registrations, start with 10 000 schemas, Avro beside confluent-kafka's."""
    _run(["registry"], quick=quick, only=only, rounds=rounds, peers=_peers(kafka, millstream, options=option), directory=directory)


@app.command()
def spark(*, quick: Quick = False, kafka: WithKafka = False, millstream: WithMillstream = True, only: Only = None, rounds: Rounds = 0,
          option: Option = None, directory: Scratch = None) -> None:  # fmt: skip
    """Topics in Spark: rows per second beside Spark's own connector, both on the same broker; --kafka does the same on Apache Kafka."""
    try:
        fetch_connector()
    except BenchError as error:
        console.print(f"without Spark's own connector: {error}")
    _run(["spark"], quick=quick, only=only, rounds=rounds, peers=_peers(kafka, millstream, options=option), directory=directory)


@app.command()
def pipeline(*, quick: Quick = False, only: Only = None, rounds: Rounds = 0, option: Option = None, directory: Scratch = None) -> None:
    """Loads into a lake: rows per second into Delta and Parquet, beside Spark's own connector with Spark's own sink."""
    try:
        fetch_connector()
    except BenchError as error:
        console.print(f"without Spark's own connector: {error}")
    _run(["pipeline"], quick=quick, only=only, rounds=rounds, peers=[Millstream(option or ())], directory=directory)


@app.command()
def tables(*, quick: Quick = False, kafka: WithKafka = False, millstream: WithMillstream = True, only: Only = None, rounds: Rounds = 0,
           option: Option = None, directory: Scratch = None) -> None:  # fmt: skip
    """Topics as tables without Spark, beside a loop around confluent-kafka's poll; --kafka does the same on Apache Kafka."""
    _run(["tables"], quick=quick, only=only, rounds=rounds, peers=_peers(kafka, millstream, options=option), directory=directory)


@app.command()
def transactions(*, quick: Quick = False, kafka: WithKafka = True, millstream: WithMillstream = True, only: Only = None, rounds: Rounds = 0,
                 warm: Warm = False, option: Option = None, directory: Scratch = None) -> None:  # fmt: skip
    """Transactions: per second, CPU and time of each at several sizes, reading past aborted ones, ids after a restart."""
    peers = _peers(kafka, millstream, options=option)
    _run(["transactions"], quick=quick, only=only, rounds=rounds, warm=warm, peers=peers, directory=directory)


@app.command()
def mirror(*, quick: Quick = False, kafka: WithKafka = True, millstream: WithMillstream = True, only: Only = None, rounds: Rounds = 0,
           option: Option = None, directory: Scratch = None) -> None:  # fmt: skip
    """A mirror between two brokers: throughput, CPU and delay, beside MirrorMaker 2 between two of Kafka's."""
    _run(["mirror"], quick=quick, only=only, rounds=rounds, peers=_peers(kafka, millstream, options=option), directory=directory)


@app.command("all")
def run_all(*, quick: Quick = False, kafka: WithKafka = True, millstream: WithMillstream = True, only: Only = None, rounds: Rounds = 0,
            option: Option = None, directory: Scratch = None) -> None:  # fmt: skip
    """Every suite of one broker that has a Kafka to compare with, one after the other."""
    suites = [suite for suite in SUITES if suite not in {"audit", "client", "cluster", "metrics", "pipeline", "processes"}]
    _run(suites, quick=quick, only=only, rounds=rounds, peers=_peers(kafka, millstream, options=option), directory=directory)


@app.command("list")
def list_cases() -> None:
    """The names of all cases, for --only."""
    for suite, cases in SUITES.items():
        for case in cases(FULL):
            console.print(f"{suite:10} {case.name:24} {case.title}")


def _peers(kafka: bool, millstream: bool, *, options: list[str] | None) -> list[Kind]:
    return _chosen((lambda: Millstream(options or ())) if millstream else None, (lambda: Kafka(find_jars())) if kafka else None)


def _chosen(millstream: Callable[[], Kind] | None, kafka: Callable[[], Kind] | None) -> list[Kind]:
    peers: list[Kind] = [millstream()] if millstream is not None else []
    if kafka is not None:
        try:
            peers.append(kafka())
        except BenchError as error:
            console.print(f"without Apache Kafka: {error}")
    if not peers:
        raise typer.BadParameter("there is no broker left to measure")
    return peers


def _run(
    suites: list[str],
    *,
    quick: bool,
    only: list[str] | None,
    rounds: int,
    peers: list[Kind],
    directory: Path | None,
    warm: bool = False,
) -> None:
    rounds = rounds or (1 if quick else 3)
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    sizes = QUICK if quick else FULL
    chosen = {suite: _choose(SUITES[suite](sizes), only) for suite in suites}
    if not any(chosen.values()):
        raise typer.BadParameter(f"no case matches {only}; see `python -m bench list`")
    # SIGTERM must unwind as Ctrl-C does, or the brokers would outlive the benchmark.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    about = _about()
    failed = False
    for suite, cases in chosen.items():
        if not cases:
            continue
        with tempfile.TemporaryDirectory(prefix="millstream-bench-", dir=directory, ignore_cleanup_errors=True) as scratch:
            runner = Runner(peers, directory=Path(scratch), rounds=rounds, is_warm=warm, say=console.print)
            results = runner.run(cases)
        rows = build_rows(cases, results, is_quick=quick)
        title = f"bench {suite}{', quick sizes' if quick else ''}{', warmed until steady' if warm else ''}, {rounds} rounds"
        console.print(render(rows, title=title))
        name = f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{suite}{'-quick' if quick else ''}"
        path = save(rows, RESULTS, name=name, title=title, about=about, results=results)
        console.print(f"saved as {path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path} and .json")
        failed = failed or bool(results.failures)
    if failed:
        raise typer.Exit(1)


def _choose(cases: list[Case], only: list[str] | None) -> list[Case]:
    if not only:
        return cases
    exact = [case for case in cases if case.name in only]
    patterns = [pattern for pattern in only if pattern not in {case.name for case in exact}]
    return [case for case in cases if case in exact or any(fnmatch(case.name, f"{pattern}*") for pattern in patterns)]


def _about() -> dict[str, str]:
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], check=False, capture_output=True, text=True, cwd=RESULTS.parent
    ).stdout.strip()
    model = next(
        (line.split(":", 1)[1].strip() for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")), ""
    )
    return {
        "date": f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
        "commit": commit or "unknown",
        "machine": f"{os.cpu_count()} cores, {model or platform.machine()}",
        "load before the run": f"{os.getloadavg()[0]:.1f} (figures from a busy machine are only good as ratios)",
        "python": platform.python_version(),
        "summary": "rates are the best round, costs the median; ratio is Millstream / Kafka",
    }


if __name__ == "__main__":
    app(prog_name="python -m bench")
