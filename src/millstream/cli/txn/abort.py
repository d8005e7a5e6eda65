"""`millstream txn abort`: end a transaction by hand. By its transactional id the coordinator does it, and fences its producer; what no
coordinator knows any more is ended in its partition, with a marker."""

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from millstream.cli.completion import complete_transactional_id
from millstream.cli.output import print_table
from millstream.cli.parameters import DEFAULT_BROKERS, Brokers, ClientOptions, Execute
from millstream.errors import CommandFailed, UsageError
from millstream.topic_partition import TopicPartition

if TYPE_CHECKING:
    from millstream.cli.txn.cluster_transactions import ClusterTransactions
    from millstream.client.admin.transaction_admin import KnownTransaction, OpenInLog

COLUMNS = ("what is aborted", "producer", "epoch", "topic", "partition", "start offset")
NOTHING_DONE = "Nothing was changed: repeat with --execute to abort."


def abort(
    name: Annotated[
        str,
        typer.Argument(
            metavar="ID|TOPIC",
            help="A transactional id; or, with PARTITION, a topic.",
            show_default=False,
            autocompletion=complete_transactional_id,
        ),
    ],
    partition: Annotated[
        int | None, typer.Argument(metavar="PARTITION", help="End what hangs in this partition of the topic.", min=0, show_default=False)
    ] = None,
    *,
    producer: Annotated[
        int | None, typer.Option("--producer", metavar="ID", help="Of several in a partition: that of this producer.")
    ] = None,
    execute: Execute = False,
    brokers: Brokers = DEFAULT_BROKERS,
    client_options: ClientOptions = None,
) -> None:
    """Abort the transaction of an id, whose producer is fenced by that; or what hangs in a partition (see `txn list --hanging`).

    Only shows what would be done, unless --execute is given.
    """
    from millstream.cli.txn.cluster_transactions import open_transactions

    if partition is None and producer is not None:
        raise UsageError("--producer chooses among the transactions of a partition: name it, as in `txn abort TOPIC PARTITION`.")
    with open_transactions(brokers, client_options) as transactions:
        if partition is None:
            _abort_id(transactions, name, execute=execute)
        else:
            _abort_in(transactions, TopicPartition(name, partition), producer, execute=execute)


def _abort_id(transactions: "ClusterTransactions", name: str, *, execute: bool) -> None:
    found = transactions.one(name)
    if found.open_ms(0) is None:
        raise CommandFailed(f"The transactional id {name!r} at {transactions.brokers} has no transaction open: nothing to abort.")
    if not found.is_open:
        raise CommandFailed(f"The transaction of {name!r} at {transactions.brokers} has been decided ({found.state}), and is being ended.")
    rows = [[f"transaction of {name}", found.producer_id, found.epoch, *place, "-"] for place in found.partitions]
    print_table(COLUMNS, rows or [[f"transaction of {name}", found.producer_id, found.epoch, "-", "-", "-"]])
    if execute:
        transactions.admin.fence(found)
        print(f"aborted the transaction of {name}; its producer cannot go on")
    else:
        print(f"{NOTHING_DONE} Its producer, if it lives, will be fenced.", file=sys.stderr)


def _abort_in(transactions: "ClusterTransactions", place: TopicPartition, producer: int | None, *, execute: bool) -> None:
    from millstream.cli.txn.hanging import is_known

    if place not in transactions.partitions([place.topic]):
        raise CommandFailed(transactions.no_such(place))
    opened = [one for one in transactions.admin.open_on([place]) if producer is None or one.producer_id == producer]
    if not opened:
        of_producer = "" if producer is None else f" of producer {producer}"
        raise CommandFailed(f"No transaction{of_producer} is open in {place} at {transactions.brokers}.")
    by_producer = transactions.admin.of_producers({one.producer_id for one in opened})
    hanging = [one for one in opened if not is_known(one, by_producer)]
    if not hanging:
        raise CommandFailed(_still_known(by_producer[opened[0].producer_id], place))
    if len(hanging) > 1:
        ids = ", ".join(str(one.producer_id) for one in hanging)
        raise CommandFailed(f"{len(hanging)} transactions hang in {place}: choose one with --producer {ids}.")
    _end(transactions, hanging[0], execute=execute)


def _still_known(known: "KnownTransaction", place: TopicPartition) -> str:
    return (
        f"What is open in {place} belongs to the transactional id {known.transactional_id!r}, whose coordinator will end it: aborted "
        f"here and committed elsewhere it would be torn. To abort all of it: `millstream txn abort {known.transactional_id}`."
    )


def _end(transactions: "ClusterTransactions", one: "OpenInLog", *, execute: bool) -> None:
    print_table(COLUMNS, [["what hangs in a partition", one.producer_id, one.epoch, *one.place, one.start_offset]])
    if execute:
        transactions.admin.write_abort_marker(one)
        print(f"aborted what producer {one.producer_id} had open in {one.place}")
    else:
        print(NOTHING_DONE, file=sys.stderr)
