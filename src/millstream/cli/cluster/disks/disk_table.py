"""How `millstream cluster disks` shows the data directories of brokers: a table for people, a document for programs."""

from collections import Counter
from collections.abc import Iterable

from millstream.cli.output import format_size, print_table
from millstream.client.admin.disk_admin import Disks

COLUMNS = ("broker", "directory", "partitions", "bytes", "moving in", "free", "of")
NOT_KNOWN = "-"


def print_disks(disks: Disks, brokers: Iterable[int]) -> None:
    """A row for each directory; a broker that does not answer has one that says so."""
    rows: list[list[str]] = []
    for broker in brokers:
        if broker not in disks.of_brokers:
            rows.append([str(broker), "does not answer", *[NOT_KNOWN] * 5])
        for one in _directories(disks, broker):
            if one["is_online"]:
                sizes = [format_size(_size(one[name])) for name in ("bytes", "free_bytes", "total_bytes")]
                rows.append([str(broker), str(one["directory"]), str(one["partitions"]), sizes[0], str(one["moving_in"]), *sizes[1:]])
            else:
                rows.append([str(broker), f"{one['directory']} (offline)", *[NOT_KNOWN] * 5])
    print_table(COLUMNS, rows, right=("broker", *COLUMNS[2:]))


def document(disks: Disks, brokers: Iterable[int]) -> dict[str, object]:
    """The same for programs; `directories` is null of a broker that does not answer."""
    return {
        "brokers": [
            {"broker": broker, "directories": _directories(disks, broker) if broker in disks.of_brokers else None} for broker in brokers
        ]
    }


def _directories(disks: Disks, broker: int) -> list[dict[str, object]]:
    counts, sizes, coming = Counter[str](), Counter[str](), Counter[str]()
    for replica, stored in disks.current.items():
        if replica.broker == broker:
            counts[stored.path] += 1
            sizes[stored.path] += stored.size_bytes
    coming.update(stored.path for replica, stored in disks.future.items() if replica.broker == broker)
    return [
        {
            "directory": disk.path,
            "is_online": disk.is_online,
            "partitions": counts[disk.path],
            "bytes": sizes[disk.path],
            "moving_in": coming[disk.path],
            "free_bytes": disk.free_bytes,
            "total_bytes": disk.total_bytes,
        }
        for disk in disks.of_brokers.get(broker, ())
    ]


def _size(value: object) -> int | None:
    return value if isinstance(value, int) else None
