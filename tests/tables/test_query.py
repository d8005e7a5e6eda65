"""`millstream query`: SQL over topics, which reads no more of them than it needs, and nothing else."""

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path
from time import time
from typing import Any

import pytest

from millstream.registry.client import RegistryClient
from millstream.tables.offset_spans import Span
from millstream.tables.topic_scan import TopicScan
from tests.brokers import Broker
from tests.spark.avro_messages import message, record, register
from tests.spark.topic_content import Message, write
from tests.topics import create_topic, fresh_name
from tests.unit.cli.conftest import Millstream

HOUR_MS = 3_600_000
VIEW = record(page="string", user="string")

Fetched = list[tuple[tuple[str, ...], list[Span]]]


@pytest.fixture(scope="module")
def views(broker: Broker, registry_url: str) -> str:
    """Three partitions of Avro, 100 views each: half of them of two hours ago."""
    topic = create_topic(broker, name=fresh_name("page-views"), partitions=3)
    now_ms = int(time() * 1000)
    with RegistryClient(registry_url) as registry:
        schema_id = register(registry, f"{topic}-value", VIEW)
    write(
        broker,
        topic,
        [
            Message(
                message(schema_id, VIEW, {"page": f"/{number % 5}", "user": f"u{number}"}),
                b"k%d" % number,
                number % 3,
                timestamp_ms=now_ms - (2 * HOUR_MS if number < 150 else HOUR_MS // 2),
            )
            for number in range(300)
        ],
    )
    return topic


@pytest.fixture
def fetched(monkeypatch: pytest.MonkeyPatch) -> Fetched:
    """The columns and the offsets that queries read."""
    seen: Fetched = []
    batches = TopicScan.batches

    def spy(self: TopicScan, *, spans: Any = None, ended: Any = None) -> Any:
        seen.append((self.options.columns or (), list(spans)))
        return batches(self, spans=spans, ended=ended)

    monkeypatch.setattr(TopicScan, "batches", spy)
    return seen


@pytest.fixture
def flags(broker: Broker, registry_url: str) -> list[str]:
    return ["--brokers", broker.bootstrap_servers, "--registry", registry_url]


def ask(millstream: Millstream, sql: str, flags: list[str]) -> Any:
    outcome = millstream("query", sql, "--output", "json", *flags)
    assert outcome.code == 0, outcome.err
    return json.loads(outcome.out)


def test_the_question_of_the_front_page(millstream: Millstream, views: str, flags: list[str], fetched: Fetched) -> None:
    sql = f"select page, count(*) as n from '{views}' where timestamp > now() - interval 1 hour group by page order by page"
    assert ask(millstream, sql, flags) == [{"page": f"/{number}", "n": 30} for number in range(5)]
    [(columns, spans)] = fetched
    assert columns == ("page", "timestamp")
    assert [(span.place.partition, span.start, span.end) for span in spans] == [(number, 50, 100) for number in range(3)]


@pytest.mark.parametrize(
    ("where", "read"),
    [
        ('"offset" >= 90', [(0, 90, 100), (1, 90, 100), (2, 90, 100)]),
        ('partition = 1 and "offset" between 10 and 19', [(1, 10, 20)]),
        ('partition in (0, 2) and "offset" < 5', [(0, 0, 5), (2, 0, 5)]),
        ("partition = 7", []),
        ("timestamp > now()", []),
        ("\"offset\" = 3 and page like '/%'", [(0, 3, 4), (1, 3, 4), (2, 3, 4)]),
        # Later records may be older: where a time ends nothing can be left out.
        ("timestamp < now() - interval 1 hour", [(0, 0, 100), (1, 0, 100), (2, 0, 100)]),
        # What Arrow cannot simplify is read whole.
        ('"offset" % 2 = 0', [(0, 0, 100), (1, 0, 100), (2, 0, 100)]),
    ],
)
def test_only_what_a_filter_leaves_is_fetched_and_the_answer_is_the_same(
    millstream: Millstream, views: str, flags: list[str], fetched: Fetched, where: str, read: list[tuple[int, int, int]]
) -> None:
    found = ask(millstream, f"select user from '{views}' where {where}", flags)
    assert [(span.place.partition, span.start, span.end) for _, spans in fetched for span in spans] == read
    whole = ask(millstream, f"select user from (select * from '{views}' where random() >= 0 limit 1000) where {where}", flags)
    assert sorted(row["user"] for row in found) == sorted(row["user"] for row in whole)


def test_a_topic_that_is_read_twice_is_read_to_the_same_end(millstream: Millstream, views: str, flags: list[str], fetched: Fetched) -> None:
    sql = f"select count(*) as n from '{views}' a join \"{views}\" b on a.user = b.user"
    assert ask(millstream, sql, flags) == [{"n": 300}]
    assert len(fetched) == 2
    assert fetched[0][1] == fetched[1][1]


def test_topics_of_json_and_text_need_no_registry(millstream: Millstream, broker: Broker) -> None:
    clicks, words = create_topic(broker, name=fresh_name("site.clicks")), create_topic(broker)
    write(broker, clicks, [Message(json.dumps({"page": f"/{number}", "at": [number]}).encode(), b"\xff") for number in range(3)])
    write(broker, words, [Message(b"/%d" % number, b"key") for number in range(2)])
    sql = f"select c.page, c.at, c.key, w.key as word from '{clicks}' c left join '{words}' w on w.value = c.page order by page"
    assert ask(millstream, sql, ["-b", broker.bootstrap_servers]) == [
        {"page": "/0", "at": [0], "key": {"base64": "/w=="}, "word": "key"},
        {"page": "/1", "at": [1], "key": {"base64": "/w=="}, "word": "key"},
        {"page": "/2", "at": [2], "key": {"base64": "/w=="}, "word": None},
    ]


@pytest.mark.parametrize(
    ("sql", "count"),
    [
        ("with views as (select * from 'VIEWS') select * from views where page in (select page from 'VIEWS' where \"offset\" = 0)", 180),
        ("from 'VIEWS' select page limit 2", 2),
        ("describe 'VIEWS'", 9),
        ("explain select * from 'VIEWS'", 1),
        ("select * from 'VIEWS' a join 'VIEWS' b using (user) where a.page = '/1'", 60),
        ("select 1 as one", 1),
    ],
)
def test_topics_are_found_wherever_a_query_names_them(millstream: Millstream, views: str, flags: list[str], sql: str, count: int) -> None:
    assert len(ask(millstream, sql.replace("VIEWS", views), flags)) == count


def test_a_query_that_has_enough_leaves_nothing_running(
    millstream: Millstream, broker: Broker, wait_for_threads: Callable[[], None]
) -> None:
    topic = create_topic(broker, partitions=4)
    write(broker, topic, [Message(b"x" * 20_000, partition=number % 4) for number in range(4_000)])
    assert len(ask(millstream, f"select value from '{topic}' limit 1", ["-b", broker.bootstrap_servers])) == 1
    wait_for_threads()


def test_tables_and_csv_are_for_people_and_spreadsheets(millstream: Millstream, views: str, flags: list[str]) -> None:
    sql = f"select page, count(*) as n, null as nothing from '{views}' group by page order by page limit 2"
    assert [line.split() for line in millstream("query", sql, *flags).out.splitlines()] == [
        ["page", "n", "nothing"], ["/0", "60", "(null)"], ["/1", "60", "(null)"]
    ]  # fmt: skip
    rows = list(csv.reader(io.StringIO(millstream("query", sql, "--output", "csv", *flags).out)))
    assert rows == [["page", "n", "nothing"], ["/0", "60", ""], ["/1", "60", ""]]
    assert millstream("query", f"select * from '{views}' limit 0", "--output", "json", *flags).out == "[]\n"


def test_positions_hold_for_every_topic(millstream: Millstream, views: str, flags: list[str]) -> None:
    assert ask(millstream, f"select count(*) as n from '{views}'", [*flags, "--from", "90", "--to", "95"]) == [{"n": 15}]
    assert ask(millstream, f"select count(*) as n from '{views}'", [*flags, "--from", "@2100-01-01"]) == [{"n": 0}]


@pytest.mark.parametrize(
    ("sql", "code", "sentence"),
    [
        ("select * from 'page-wievs-x'", 1, "There is no topic 'page-wievs-x' at 127.0.0.1:"),
        ("select offset from 'VIEWS'", 2, 'as a column it is written "offset", in double quotes'),
        ("select pag from 'VIEWS'", 2, 'Referenced column "pag" not found'),
        ("select 1; select 2", 2, "a query is one statement"),
        ("", 2, "a query is one statement"),
        ("selec 1", 2, 'syntax error at or near "selec"'),
        ("select * from read_csv('/etc/passwd')", 1, "unless it is run with --allow-files"),
        ("copy (select 1) to 'there.csv'", 1, "unless it is run with --allow-files"),
        ("set enable_external_access = true", 1, "the configuration has been locked"),
        ("select 'x'::int", 1, "Could not convert"),
    ],
)
def test_what_a_query_cannot_do_is_said(millstream: Millstream, views: str, flags: list[str], sql: str, code: int, sentence: str) -> None:
    outcome = millstream("query", sql.replace("VIEWS", views), *flags)
    assert (outcome.code, outcome.out) == (code, "")
    assert sentence in outcome.err
    assert "Traceback" not in outcome.err


def test_columns_of_one_name_are_all_in_the_json(millstream: Millstream, views: str, flags: list[str]) -> None:
    sql = f"""select a.page, b.page, 'x' as page_1 from '{views}' a join '{views}' b using (partition, "offset") where "offset" = 0
              and partition = 0"""
    assert ask(millstream, sql, flags) == [{"page": "/0", "page_2": "/0", "page_1": "x"}]


def test_what_is_wrong_with_a_topic_is_said_as_the_scan_says_it(millstream: Millstream, views: str, flags: list[str]) -> None:
    outcome = millstream("query", f"select * from '{views}'", "--from", "999", "--value-format", "json", *flags)
    assert outcome.code == 1
    assert outcome.err.startswith(f"millstream: start is offset 999, and {views}-0 has the offsets from 0 up to 100")


def test_a_topic_with_a_typo_is_found(millstream: Millstream, views: str, flags: list[str]) -> None:
    assert f"did you mean '{views}'?" in millstream("query", f"select * from '{views}s'", *flags).err


def test_files_are_read_where_that_is_asked_for(millstream: Millstream, views: str, flags: list[str], tmp_path: Path) -> None:
    names = tmp_path / "names.csv"
    names.write_text("page,name\n/1,start\n")
    sql = f"select name, count(*) as n from '{views}' join '{names}' using (page) group by name"
    assert ask(millstream, sql, [*flags, "--allow-files"]) == [{"name": "start", "n": 60}]
    assert "unless it is run with --allow-files" in millstream("query", sql, *flags).err


def test_a_message_that_does_not_decode_is_said_as_the_scan_says_it(millstream: Millstream, broker: Broker, topic: str) -> None:
    write(broker, topic, [Message(b"text"), Message(b"\xff")])
    flags = ["-b", broker.bootstrap_servers, "--value-format", "string"]
    outcome = millstream("query", f"select max(value) from '{topic}'", *flags)
    assert outcome.code == 1
    assert outcome.err.startswith(f"millstream: the value at offset 1 of {topic}-0 cannot be read as string: it is not UTF-8")
    assert ask(millstream, f"select max(value) as v from '{topic}'", [*flags, "--mode", "permissive"]) == [{"v": "text"}]


def test_offsets_that_are_gone_are_said_with_what_to_do(millstream: Millstream, broker: Broker, topic: str) -> None:
    write(broker, topic, [Message(b"text")])
    flags = ["-b", broker.bootstrap_servers, "--from", "7"]
    outcome = millstream("query", f"select count(*) as n from '{topic}'", *flags)
    assert (outcome.code, "(a query: --allow-data-loss) reads what there is" in outcome.err) == (1, True)
    assert ask(millstream, f"select count(*) as n from '{topic}'", [*flags, "--allow-data-loss"]) == [{"n": 0}]


def test_what_is_missing_is_one_sentence(millstream: Millstream, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("millstream.tables.topic_scan.find_spec", lambda _: None)
    outcome = millstream("query", "select 1")
    needed = "numpy, pyarrow and duckdb"
    assert (outcome.code, outcome.err) == (
        2,
        f"millstream: SQL over topics needs {needed}: pip install '.[query]' in a checkout of Millstream\n",
    )
