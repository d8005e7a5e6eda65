"""How a plan is shown before anything is done: what moves, what each broker then has, and what it costs."""

from collections.abc import Collection, Sequence

from millstream.cli.cluster.planning.layout import Load, Replicas
from millstream.cli.cluster.planning.plan import DiskMove, Move, Plan
from millstream.cli.output import format_size, print_table

MOST_LISTED = 20
MOST_NAMED = 5
MOVE_COLUMNS = ("partition", "size", "replicas", "become", "copied to", "deleted on")
DISK_MOVE_COLUMNS = ("partition", "size", "broker", "from", "to")
LOAD_COLUMNS = ("broker", "rack", "partitions", "leaders", "bytes")


def print_plan(plan: Plan, *, with_loads: bool) -> None:
    """The moves, largest first, and in sum; before and after for each broker, if that is the point."""
    if plan.moves or not plan.disk_moves:
        print_moves(plan.moves)
    if plan.disk_moves:
        print_disk_moves(plan.disk_moves)
    if with_loads:
        print_loads(plan)
    print(summary(plan))


def print_moves(moves: Sequence[Move]) -> None:
    """A table of them, cut where it becomes long."""
    ordered = sorted(moves, key=lambda move: (-move.bytes_to_copy, move.place))
    rows = [
        [str(move.place), format_size(move.size_bytes), ids(move.before), ids(move.after), ids(move.adding), ids(move.removing)]
        for move in ordered[:MOST_LISTED]
    ]
    print_table(MOVE_COLUMNS, rows, right=("size",))
    if len(moves) > MOST_LISTED:
        print(f"and {len(moves) - MOST_LISTED} more (--dry-run --json lists them all)")
    print()


def print_disk_moves(moves: Sequence[DiskMove]) -> None:
    """A table of what moves between disks, cut where it becomes long."""
    ordered = sorted(moves, key=lambda move: (-move.bytes_to_copy, move.replica))
    rows = [
        [str(move.place), format_size(move.size_bytes), str(move.replica.broker), move.before or "(comes)", move.after]
        for move in ordered[:MOST_LISTED]
    ]
    print_table(DISK_MOVE_COLUMNS, rows, right=("size", "broker"))
    if len(moves) > MOST_LISTED:
        print(f"and {len(moves) - MOST_LISTED} more (--dry-run --json lists them all)")
    print()


def print_loads(plan: Plan) -> None:
    """What each broker has, and what it would have."""
    before, after, racks = plan.layout.loads(), plan.after.loads(), plan.layout.racks
    nothing = Load(0, 0, 0)
    rows = [
        [
            broker,
            (racks[broker] or "-") if broker in racks else "is not there",
            *_changes(before.get(broker, nothing), after.get(broker, nothing)),
        ]
        for broker in sorted({*before, *after})
    ]
    print_table(LOAD_COLUMNS, rows, right=LOAD_COLUMNS[2:])
    print()


def summary(plan: Plan) -> str:
    """What it costs, in one sentence."""
    copied = len(plan.copies)
    others = len(plan.moves) - copied
    parts = []
    if copied:
        parts.append(f"{count(copied, 'partition')} copied to other brokers ({format_size(plan.bytes_to_copy)})")
    if others:
        parts.append(f"{count(others, 'partition')} with fewer replicas or another order of them (nothing is copied)")
    changing = [move for move in plan.disk_moves if move.before is not None]
    if changing:
        parts.append(f"{count(len(changing), 'replica')} moved to other disks of the same broker ({format_size(plan.disk_bytes_to_copy)})")
    return f"Plan: {' and '.join(parts)}." if parts else "Plan: nothing to do."


def ids(brokers: Replicas) -> str:
    """Broker ids as people write them."""
    return ",".join(map(str, brokers)) or "-"


def count(number: int, noun: str) -> str:
    """`1 partition`, `2 partitions`."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def names(things: Collection[object]) -> str:
    """The first few by name, and how many more there are."""
    named = ", ".join(sorted(map(str, things))[:MOST_NAMED])
    return f"{named} and {len(things) - MOST_NAMED} more" if len(things) > MOST_NAMED else named


def names_were(things: Collection[object]) -> str:
    """The same as the beginning of a sentence: `clicks-0 was`, `clicks-0, clicks-1 were`."""
    return f"{names(things)} {'was' if len(things) == 1 else 'were'}"


def _changes(before: Load, after: Load) -> list[str]:
    texts = [
        (str(before.partitions), str(after.partitions)),
        (str(before.leaders), str(after.leaders)),
        (format_size(before.size_bytes), format_size(after.size_bytes)),
    ]
    return [old if old == new else f"{old} -> {new}" for old, new in texts]
