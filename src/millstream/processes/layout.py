"""Which broker of a machine keeps its logs where: each below every data directory, or the only one in the data directories themselves.

    DIR/coordination        the tree of znodes of all of them
    DIR/process.1/          the data directory of broker 1: its logs, checkpoints, meta.properties; and so on
    DIR/                    the data directory of a broker that is alone

A dot stands before the number because a directory whose name ends with a dash and a number is the log of a partition. How many brokers
there are is in the tree (`/processes`), where it changes in one step with the partitions that are given to them. A broker that was always
alone is not there: its number is in its `meta.properties`.
"""

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple, Self

from millstream.json_object import JsonObject

PREFIX: Final = "process."
ALONE: Final = ""
"""The home of a broker that is alone."""
FIRST: Final = f"{PREFIX}1"
CHANGE_FILE: Final = "layout-change.json"
"""In each data directory while partitions are given to other brokers (`layout_change`)."""


class Layout(NamedTuple):
    """The home of each broker, by its number: where in each data directory its own is."""

    homes: Mapping[int, str]

    @classmethod
    def of_processes(cls, processes: int) -> Self:
        """So many brokers, numbered from 1."""
        return cls({number: f"{PREFIX}{number}" for number in range(1, processes + 1)})

    @classmethod
    def alone(cls, node_id: int) -> Self:
        """One broker, which has everything for itself."""
        return cls({node_id: ALONE})

    @property
    def processes(self) -> int:
        """How many processes there are; 0 where one broker is alone."""
        return 0 if ALONE in self.homes.values() else len(self.homes)

    def encode(self) -> bytes:
        """The content of the znode `/processes`."""
        return json.dumps({"processes": self.processes} if self.processes else {"alone": min(self.homes)}).encode()

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """What the znode says; ValueError if that makes no sense."""
        fields = JsonObject.parse(data)
        return cls.alone(fields.integer("alone")) if "alone" in fields else cls.of_processes(fields.integer("processes", lowest=1))

    def paths(self, data: Sequence[Path], node_id: int) -> tuple[Path, ...]:
        """The data directories of one of the brokers."""
        home = self.homes[node_id]
        return tuple(path / home for path in data)


def has_processes(data: Sequence[Path]) -> bool:
    """Whether several brokers may have been here, or a change is not finished; only a look at names.

    One that may not be looked into, or whose disk does not answer, has none: whoever opens it says what is wrong with it.
    """
    return any(os.path.exists(path / name) for path in data for name in (FIRST, CHANGE_FILE))  # that of a Path raises
