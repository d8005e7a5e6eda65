"""What to try next: with everything stopped, or with everything running."""

from pathlib import Path

from demo.events import CLICKS, PAGE_VIEWS
from demo.jobs import WINDOWS_TOPIC, windows_file
from demo.process import ROOT
from demo.services import Services

_COMMAND = ".venv/bin/millstream"


def advice(directory: Path) -> list[str]:
    """For when everything has been stopped; the tables are still there."""
    table = f"DeltaTable('{shown(directory) / 'lake' / PAGE_VIEWS}').to_pyarrow_table()"
    question = "duckdb.sql('select device, count(*) from views group by device')"
    return [
        f'.venv/bin/python -c "import duckdb; from deltalake import DeltaTable; views = {table}; print({question})"',
        "scripts/demo --keep      leaves everything running, to look at and to break",
        "scripts/demo --short     the broker alone, in a few seconds",
        "scripts/cluster          three brokers, to kill one of",
    ]


def advice_while_running(services: Services) -> list[str]:
    """For when everything runs."""
    live, offline = services.live, services.offline
    question = f"select page, count(*) as views from '{PAGE_VIEWS}' group by page order by views desc limit 5"
    return [
        f'{_COMMAND} query "{question}" --brokers {offline} --value-format avro --registry {services.registry}',
        f"{_COMMAND} consume {WINDOWS_TOPIC} --brokers {offline} -o beginning",
        f"{_COMMAND} mirror status --from {live} --to {offline}",
        f"{_COMMAND} audit report --brokers {live} --brokers {offline}",
        f"{_COMMAND} pipeline status --checkpoint {shown(services.directory) / 'checkpoints' / 'load'}",
        f"{_COMMAND} pipeline replay {shown(windows_file(services.directory))} --to-topic views-again --final",
        f"{_COMMAND} registry get {PAGE_VIEWS}-value --url {services.registry}",
        f"{_COMMAND} topic describe {CLICKS} --brokers {live}",
        f"curl http://{services.addresses['metrics']}/metrics",
        f"kill -9 {services.live_broker.pid}   # then: {_shown_command(services.live_broker.command)}",
    ]


def running_processes(services: Services) -> list[tuple[str, int]]:
    """The names and ids of what runs."""
    return [(process.name, process.pid) for process in services.processes if process.is_running]


def _shown_command(command: list[str]) -> str:
    return " ".join([_COMMAND, *command[1:]])


def shown(path: Path) -> Path:
    """A path as a person in the checkout would write it."""
    return path.relative_to(ROOT) if path.is_relative_to(ROOT) else path
