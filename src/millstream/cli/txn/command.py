"""`millstream txn`: list, describe and abort transactions, of Millstream or of any other Kafka from 3.0 on.

`list` and `describe` are here, `abort` has a file of its own: it shows what would be done, and does it with `--execute`.
"""

import time
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from millstream.cli.completion import complete_topic, complete_transactional_id
from millstream.cli.output import format_seconds, format_timestamp, print_json, print_table
from millstream.cli.parameters import DEFAULT_BROKERS, Brokers, ClientOptions, Output, OutputFormat
from millstream.cli.txn.abort import abort
from millstream.errors import UsageError

if TYPE_CHECKING:
    from millstream.client.admin.transaction_admin import KnownTransaction

app = typer.Typer(help="List, describe and abort transactions.", no_args_is_help=True)

COLUMNS = ("id", "state", "producer", "epoch", "coordinator", "open for", "timeout", "partitions")
HANGING_COLUMNS = ("topic", "partition", "producer", "epoch", "start offset", "last write", "silent for")
RIGHT = ("open for", "timeout", "silent for")
NO_HANGING = "No transaction hangs."


class TransactionState(StrEnum):
    """What a transactional id can be doing."""

    EMPTY = "empty"
    ONGOING = "ongoing"
    PREPARE_COMMIT = "prepare-commit"
    PREPARE_ABORT = "prepare-abort"
    COMPLETE_COMMIT = "complete-commit"
    COMPLETE_ABORT = "complete-abort"
    PREPARE_EPOCH_FENCE = "prepare-epoch-fence"
    DEAD = "dead"


@app.command("list")
def list_transactions(
    *,
    state: Annotated[list[TransactionState] | None, typer.Option("--state", help="Only those in this state; repeatable.")] = None,
    hanging: Annotated[
        bool, typer.Option("--hanging", help="Instead: what is open in a log, and no coordinator will ever end. Asks every partition.")
    ] = False,
    topic: Annotated[
        list[str] | None,
        typer.Option(
            "-t", "--topic", help="With --hanging: only this topic; repeatable.", show_default="all", autocompletion=complete_topic
        ),
    ] = None,
    longer_than: Annotated[
        float | None,
        typer.Option("--longer-than", metavar="SECONDS", min=0, help="With --hanging: silent for longer.", show_default="900"),
    ] = None,
    brokers: Brokers = DEFAULT_BROKERS,
    output: OutputFormat = Output.TABLE,
    client_options: ClientOptions = None,
) -> None:
    """List transactional ids: state, producer, how long a transaction is open, its time-out and partitions.

    With --hanging: transactions that keep readers of committed data waiting for ever. Give --longer-than if the brokers have another
    transaction.max.timeout.ms than 15 minutes.
    """
    if (topic or longer_than is not None) and not hanging:
        raise UsageError("--topic and --longer-than belong to --hanging, which looks at partitions.")
    if hanging and state:
        raise UsageError("--state and --hanging are two questions: what hangs has no state at a coordinator.")
    rows = _hanging_rows(brokers, client_options, topic or [], longer_than) if hanging else _rows(brokers, client_options, state or [])
    if output is Output.JSON:
        print_json(rows)
    elif hanging:
        print_table(HANGING_COLUMNS, map(_hanging_cells, rows), right=RIGHT) if rows else print(NO_HANGING)
    else:
        print_table(COLUMNS, map(_cells, rows), right=RIGHT)


@app.command("describe")
def describe(
    ids: Annotated[
        list[str], typer.Argument(metavar="ID", help="Transactional ids.", show_default=False, autocompletion=complete_transactional_id)
    ],
    *,
    brokers: Brokers = DEFAULT_BROKERS,
    output: OutputFormat = Output.TABLE,
    client_options: ClientOptions = None,
) -> None:
    """Show transactions with every partition that is part of them, and since when each is open there."""
    from millstream.cli.txn.cluster_transactions import open_transactions

    with open_transactions(brokers, client_options) as transactions:
        described = []
        for name in ids:
            found = transactions.one(name)
            opened = {one.place: one for one in transactions.open_in(found.partitions) if one.producer_id == found.producer_id}
            parts = [
                {
                    "topic": place.topic,
                    "partition": place.partition,
                    "start_offset": opened[place].start_offset if place in opened else None,
                    "last_write_ms": opened[place].last_timestamp_ms if place in opened else None,
                }
                for place in found.partitions
            ]
            described.append({**document(found), "partitions": parts})
    if output is Output.JSON:
        print_json(described)
        return
    for one in described:
        _print(one)


app.command("abort")(abort)


def document(found: "KnownTransaction") -> dict[str, Any]:
    """What is said of a transactional id, as JSON has it."""
    open_ms = found.open_ms(int(time.time() * 1000))
    return {
        "id": found.transactional_id,
        "state": state_word(found.state),
        "producer": found.producer_id,
        "epoch": found.epoch,
        "coordinator": found.coordinator,
        "open_seconds": None if open_ms is None else open_ms / 1000,
        "timeout_seconds": found.timeout_ms / 1000,
        "partitions": [list(place) for place in found.partitions],
    }


def state_word(state: str) -> str:
    """`PrepareCommit` as the command line writes it: `prepare-commit`."""
    return "".join(f"-{letter.lower()}" if letter.isupper() else letter for letter in state).removeprefix("-")


def _rows(brokers: str, client_options: list[str] | None, states: Sequence[TransactionState]) -> list[dict[str, Any]]:
    from millstream.cli.txn.cluster_transactions import open_transactions

    with open_transactions(brokers, client_options) as transactions:
        rows = [document(one) for one in transactions.admin.all()]
    return sorted((row for row in rows if not states or row["state"] in states), key=lambda row: row["id"])


def _hanging_rows(brokers: str, client_options: list[str] | None, topics: list[str], longer_than_s: float | None) -> list[dict[str, Any]]:
    from millstream.cli.txn.cluster_transactions import open_transactions
    from millstream.cli.txn.hanging import LONGEST_S, candidates, hanging

    now_ms = int(time.time() * 1000)
    longest_ms = (LONGEST_S if longer_than_s is None else longer_than_s) * 1000
    with open_transactions(brokers, client_options) as transactions:
        opened = transactions.admin.open_on(transactions.partitions(topics))
        suspects = candidates(opened, now_ms=now_ms, longer_than_ms=longest_ms)
        found = hanging(suspects, transactions.admin.of_producers({one.producer_id for one in suspects}))
    return [
        {
            "topic": one.place.topic,
            "partition": one.place.partition,
            "producer": one.producer_id,
            "epoch": one.epoch,
            "start_offset": one.start_offset,
            "last_write_ms": one.last_timestamp_ms,
            "silent_seconds": (now_ms - one.last_timestamp_ms) / 1000,
        }
        for one in sorted(found)
    ]


def _cells(row: Mapping[str, Any]) -> list[object]:
    from rich.text import Text

    open_s, timeout_s = row["open_seconds"], row["timeout_seconds"]
    is_late = open_s is not None and open_s > timeout_s
    shown = Text(format_seconds(open_s), "red" if is_late else "")
    numbers = [row[name] for name in ("id", "state", "producer", "epoch", "coordinator")]
    return [*numbers, shown, format_seconds(timeout_s), len(row["partitions"])]


def _hanging_cells(row: Mapping[str, Any]) -> list[object]:
    numbers = [row[name] for name in ("topic", "partition", "producer", "epoch", "start_offset")]
    return [*numbers, format_timestamp(row["last_write_ms"]), format_seconds(row["silent_seconds"])]


def _print(one: Mapping[str, Any]) -> None:
    facts = [one["id"], one["state"], f"producer {one['producer']} epoch {one['epoch']}", f"coordinator {one['coordinator']}"]
    if one["open_seconds"] is not None:
        facts.append(f"open for {format_seconds(one['open_seconds'])}")
    facts.append(f"time-out {format_seconds(one['timeout_seconds'])}")
    print("  ".join(facts))
    if one["partitions"]:
        rows = [
            [part["topic"], part["partition"], "-" if part["start_offset"] is None else part["start_offset"]] for part in one["partitions"]
        ]
        print_table(("topic", "partition", "start offset"), rows, right=("start offset",))
