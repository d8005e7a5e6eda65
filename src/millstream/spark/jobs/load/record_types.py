"""Several record types in one topic: which message is of which, by the schema whose id it has."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from millstream.arrow.avro.column_types import BadSchema, parse_avro
from millstream.arrow.avro.format import schema_ids
from millstream.arrow.binary_columns import BinaryColumn
from millstream.arrow.kernels.compiled import Flags, Ints
from millstream.avro.schema import Record
from millstream.registry.addresses import Addresses
from millstream.registry.client import RegistryClient
from millstream.registry.errors import RegistryError
from millstream.spark.jobs.load.table_plan import TablePlan

_NOT_FOUND: Final = 404
_NO_TABLE: Final = -1


@dataclass(frozen=True, slots=True)
class Malformed:
    """Which of the records could not be read; `explain(row)` says why."""

    is_malformed: Flags
    explain: Callable[[int], str]


class RecordTypes:
    """Splits the messages of a topic by record type. One per task: what the registry did not know may be there for the next."""

    def __init__(self, plans: Sequence[TablePlan], registry: Addresses | None) -> None:
        assert registry is not None, "record types come from a registry"
        self._plans = plans
        self._registry = RegistryClient(registry)
        self._tables: dict[int, int] = {}
        self._problems = {-1: "it has no schema, so it is of none of the record types of its topic"}

    def close(self) -> None:
        """Close the connection to the registry."""
        self._registry.close()

    def split(self, values: BinaryColumn) -> Iterator[tuple[TablePlan, Flags, BinaryColumn]]:
        """For each type: which messages are of it, and the column in which all others are null."""
        tables = self._look_up(schema_ids(values))
        for number, plan in enumerate(self._plans):
            is_of_type = tables == number
            if is_of_type.any():
                yield plan, is_of_type, values._replace(is_null=~is_of_type)

    def unknown(self, values: BinaryColumn) -> Malformed | None:
        """The messages that are of no type, if there are any; a null is one of them."""
        ids = schema_ids(values)
        is_unknown = self._look_up(ids) == _NO_TABLE
        return Malformed(is_unknown, lambda row: self._problems[int(ids[row])]) if is_unknown.any() else None

    def _look_up(self, ids: Ints) -> Ints:
        different, where = np.unique(ids, return_inverse=True)
        return np.array([self._table(int(schema_id)) for schema_id in different], np.int64)[where]

    def _table(self, schema_id: int) -> int:
        if schema_id in self._problems:
            return _NO_TABLE
        if schema_id not in self._tables:
            name = self._record_name(schema_id)
            numbers = [number for number, plan in enumerate(self._plans) if plan.record == name]
            if not numbers:
                self._problems.setdefault(schema_id, f"its record type {name} has no subject of this topic, and so no table")
                return _NO_TABLE
            self._tables[schema_id] = numbers[0]
        return self._tables[schema_id]

    def _record_name(self, schema_id: int) -> str | None:
        try:
            registered = self._registry.schema_by_id(schema_id)
            references = [one.schema for one in self._registry.resolved_references(registered)]
            schema = parse_avro([*references, registered.schema])
        except BadSchema as error:
            self._problems[schema_id] = f"its schema {schema_id} cannot be read: {error}"
            return None
        except RegistryError as error:
            if error.status != _NOT_FOUND:
                raise
            self._problems[schema_id] = f"its schema {schema_id} is not in the registry"
            return None
        return schema.fullname if isinstance(schema, Record) else None
