"""SQL over topics, by DuckDB: the tables of a query that are names of topics are read from the brokers while it runs.

    with TopicQuery("select page, count(*) from 'page-views' group by page", open_scan) as query:
        for batch in query.reader: ...

Which names a query has is DuckDB's to say, and so are its dialect and its plan; what it needs of a topic comes back to the scan
(`topic_dataset`). A query reads topics and nothing else: no file, no address, no extension, no variable of Python's, and no setting can be
changed, unless files are allowed.
"""

import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final, Self

from millstream.errors import CommandFailed, MillstreamError, UsageError
from millstream.tables.scan_options import did_you_mean
from millstream.tables.topic_scan import NEEDED, TopicScan, require

if TYPE_CHECKING:
    import pyarrow as pa

    from millstream.tables.topic_dataset import TopicDataset

OpenScan = Callable[[str], TopicScan]
"""The scan of a topic that exists."""

BATCH_ROWS: Final = 10_000
_SEALED: Final[dict[str, str | bool | int | float | list[str]]] = {
    "enable_external_access": "false",
    "python_enable_replacements": "false",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
}
_KEYWORD_ADVICE: Final = '\noffset is a word of SQL: as a column it is written "offset", in double quotes'
_FILES_ADVICE: Final = "\nA query reads topics only, unless it is run with --allow-files"


class TopicQuery:
    """One query while it runs; `topics` are the names that can be tables, and `reader` has the rows of the answer."""

    reader: "pa.RecordBatchReader"

    def __init__(self, sql: str, open_scan: OpenScan, *, topics: Iterable[str], brokers: str, allow_files: bool = False) -> None:
        require_query()
        self._sql = sql
        self._open_scan = open_scan
        self._topics = list(topics)
        self._brokers = brokers
        self._allow_files = allow_files
        self._datasets: dict[str, TopicDataset] = {}
        self._connection: Any = None

    def __enter__(self) -> Self:
        import duckdb

        self._connection = duckdb.connect(config={} if self._allow_files else dict(_SEALED))
        try:
            with self._plain_errors():
                names = self._table_names()
                self._register(names)
                self._connection.execute("SET TimeZone = 'UTC'")
                self._connection.execute("SET lock_configuration = true")
                with self._missing_topics(names):
                    answer = self._connection.sql(self._sql)
                if answer is None:
                    raise UsageError("the SQL asks for no rows: a query is one SELECT, or DESCRIBE, or EXPLAIN")
                self.reader = answer.to_arrow_reader(BATCH_ROWS)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(AttributeError):
            del self.reader
        self._connection.close()
        for dataset in self._datasets.values():
            dataset.close()

    def batches(self) -> "Iterator[pa.RecordBatch]":
        """The rows of the answer."""
        with self._plain_errors():
            yield from self.reader

    def _table_names(self) -> set[str]:
        """What the query reads from, as DuckDB's own parser sees it; the names that it gives itself (`with`) are among them."""
        if len(self._connection.extract_statements(self._sql)) != 1:
            raise UsageError("a query is one statement, as in: select page, count(*) from 'page-views' group by page")
        tree = json.loads(self._connection.execute("select json_serialize_sql(?)", [self._sql]).fetchall()[0][0])
        if tree["error"]:  # EXPLAIN and the like have no tree
            return set(self._connection.get_table_names(self._sql))
        return set(_base_tables(tree))

    def _register(self, names: Iterable[str]) -> None:
        from millstream.tables.topic_dataset import TopicDataset

        for name in sorted(set(names).intersection(self._topics)):
            if name.lower() in {other.lower() for other in self._datasets}:
                raise UsageError(f"the query reads topics whose names differ only in case, like {name!r}: SQL does not distinguish them")
            dataset = TopicDataset(self._open_scan(name))
            dataset.schema  # noqa: B018 -- what cannot be read is said in the words of the scan, not in those of DuckDB
            self._datasets[name] = dataset
            self._connection.register(name, dataset)

    @contextmanager
    def _missing_topics(self, names: Iterable[str]) -> Iterator[None]:
        import duckdb

        try:
            yield
        except duckdb.CatalogException as error:
            missing = sorted(name for name in names if name not in self._topics and f"with name {name} " in str(error))
            if not missing:
                raise
            hint = did_you_mean(missing[0], self._topics, otherwise=lambda: f"there are {', '.join(self._topics[:10]) or 'none'}")
            raise CommandFailed(f"There is no topic {missing[0]!r} at {self._brokers}; {hint}") from None

    @contextmanager
    def _plain_errors(self) -> Iterator[None]:
        """What the scan of a topic complained about goes before what the engine made of it."""
        import duckdb
        import pyarrow as pa

        try:
            yield
        except (duckdb.Error, pa.ArrowException, OSError) as error:
            for dataset in self._datasets.values():
                if isinstance(dataset.failure, MillstreamError):
                    raise dataset.failure from None
            text = str(error).rstrip()
            if isinstance(error, duckdb.ParserException) and "offset" in self._sql.lower():
                text += _KEYWORD_ADVICE
            if isinstance(error, duckdb.PermissionException) and not self._allow_files:
                text += _FILES_ADVICE
            is_wrong = isinstance(error, duckdb.ParserException | duckdb.BinderException | duckdb.CatalogException)
            raise (UsageError if is_wrong else CommandFailed)(f"The query failed: {text}") from None


def _base_tables(node: Any) -> Iterator[str]:
    """The tables of a tree that are named without a schema."""
    if isinstance(node, dict):
        if node.get("type") == "BASE_TABLE" and not node.get("schema_name") and not node.get("catalog_name"):
            yield node["table_name"]
        node = list(node.values())
    if isinstance(node, list):
        for part in node:
            yield from _base_tables(part)


def require_query() -> None:
    """Say what to install where something is missing."""
    require([*NEEDED, "duckdb"], "SQL over topics", "query")
