"""What a task of a load has done, as the text that travels to the driver."""

import base64
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from millstream.lake.bucket_counts import BucketCount
from millstream.lake.data_file import DataFile
from millstream.lake.load_batch import LoadedRange


@dataclass(frozen=True, slots=True)
class TopicResult:
    """One topic of a task."""

    topic_id: str | None
    ranges: tuple[LoadedRange, ...]
    counts: tuple[BucketCount, ...]
    dead_letters: str | None
    """The file with the messages that could not be read, relative to the directory of dead letters."""
    progress_ms: int | None = None
    """Up to which time of messages the task has loaded what it read of the topic."""
    is_behind: bool = False
    """Whether the topic has more than the micro-batch."""


@dataclass(frozen=True, slots=True)
class TableResult:
    """One table of a task: also where it got no rows."""

    topic: str
    files: tuple[DataFile, ...]
    schema: pa.Schema


@dataclass(frozen=True, slots=True)
class TaskResult:
    """All of a task, by the names of topics and tables."""

    topics: Mapping[str, TopicResult]
    tables: Mapping[str, TableResult]

    def text(self) -> str:
        """The form in which it travels."""
        topics = {
            name: [one.topic_id, one.ranges, [count.document() for count in one.counts], one.dead_letters, one.progress_ms, one.is_behind]
            for name, one in self.topics.items()
        }
        tables = {
            name: [one.topic, [file.document() for file in one.files], base64.b64encode(one.schema.serialize()).decode()]
            for name, one in self.tables.items()
        }
        return json.dumps({"topics": topics, "tables": tables})

    @classmethod
    def of(cls, text: str) -> "TaskResult":
        """What `text` made."""
        document = json.loads(text)
        return cls(
            {name: _topic(*fields) for name, fields in document["topics"].items()},
            {name: _table(*fields) for name, fields in document["tables"].items()},
        )


def tables_of(results: Iterable[TaskResult]) -> dict[str, TableResult]:
    """The tables of a micro-batch, with the files of all tasks."""
    tables: dict[str, TableResult] = {}
    for result in results:
        for name, table in result.tables.items():
            known = tables.get(name)
            tables[name] = table if known is None else replace(known, files=known.files + table.files)
    return tables


def _topic(topic_id: str | None, ranges: Any, counts: Any, *rest: Any) -> TopicResult:
    return TopicResult(topic_id, tuple(LoadedRange(*one) for one in ranges), tuple(map(BucketCount.of, counts)), *rest)


def _table(topic: str, files: Any, schema: str) -> TableResult:
    return TableResult(topic, tuple(DataFile(**file) for file in files), pa.ipc.read_schema(pa.py_buffer(base64.b64decode(schema))))
