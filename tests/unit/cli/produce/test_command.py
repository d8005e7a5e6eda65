from collections.abc import Iterator
from pathlib import Path

import pytest

from millstream.cli.produce import command
from millstream.testing import Broker
from tests.unit.cli.conftest import Millstream


@pytest.fixture
def brokers(millstream_broker: Broker) -> list[str]:
    return ["-b", millstream_broker.bootstrap_servers]


def test_arguments_are_sent_and_the_places_shown(millstream: Millstream, brokers: list[str]) -> None:
    outcome = millstream("produce", "cli-arguments", "a", "b", *brokers)
    assert outcome.code == 0, outcome.err
    assert outcome.err == "created cli-arguments\nsent 2 records to cli-arguments: partition 0 offsets 0-1\n"
    assert outcome.out == ""


def test_lines_of_stdin_arrive_byte_for_byte(millstream: Millstream, brokers: list[str]) -> None:
    lines = b"one\n\n\xff\xfe\r\nlast without newline"
    assert millstream("produce", "cli-lines", *brokers, stdin=lines).code == 0
    values = [record["value"] for record in millstream("consume", "cli-lines", "--output", "json", *brokers).documents]
    assert values == ["one", "", {"base64": "//4N"}, "last without newline"]


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_every_codec_arrives(millstream: Millstream, brokers: list[str], codec: str) -> None:
    topic = f"cli-codec-{codec}"
    assert millstream("produce", topic, "-z", codec, *brokers, stdin=b"same line\n" * 1_000).code == 0
    assert millstream("consume", topic, *brokers).out == "same line\n" * 1_000


@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_every_kind_of_acknowledgement_works(millstream: Millstream, brokers: list[str], acks: str) -> None:
    topic = f"cli-acks-{acks}"
    assert millstream("produce", topic, "v", "-a", acks, *brokers).code == 0
    assert millstream("consume", topic, "--follow", "-n", "1", *brokers).out == "v\n"


def test_keys_headers_and_tombstones_arrive(millstream: Millstream, brokers: list[str]) -> None:
    arguments = ["-K", ":", "--tombstones", "-H", "trace=1", "-H", "empty="]
    assert millstream("produce", "cli-keys", *arguments, *brokers, stdin=b"k:v\nk:\n").code == 0
    first, second = millstream("consume", "cli-keys", "--output", "json", *brokers).documents
    assert (first["key"], first["value"], first["headers"]) == ("k", "v", [["trace", "1"], ["empty", ""]])
    assert (second["key"], second["value"]) == ("k", None)


def test_json_output_shows_the_place_of_every_record(millstream: Millstream, brokers: list[str]) -> None:
    outcome = millstream("produce", "cli-places", "a", "b", "-p", "0", "--output", "json", *brokers)
    assert outcome.documents == [{"topic": "cli-places", "partition": 0, "offset": offset} for offset in (0, 1)]


def test_a_partition_that_is_not_there_is_refused(millstream: Millstream, brokers: list[str]) -> None:
    outcome = millstream("produce", "cli-partition", "v", "-p", "9", *brokers)
    assert outcome.code == 1
    assert "no partition 9" in outcome.err


def test_records_before_a_wrong_line_are_still_delivered(millstream: Millstream, brokers: list[str]) -> None:
    outcome = millstream("produce", "cli-wrong-line", "-K", ":", *brokers, stdin=b"k:v\nwrong\n")
    assert outcome.code == 2
    assert "'wrong'" in outcome.err
    assert millstream("consume", "cli-wrong-line", *brokers).out == "v\n"


def test_a_record_that_is_too_big_is_reported(millstream: Millstream, brokers: list[str]) -> None:
    millstream("topic", "create", "cli-small", "-c", "max.message.bytes=1000", *brokers)
    outcome = millstream("produce", "cli-small", "v" * 5_000, *brokers)
    assert outcome.code == 1
    assert "cli-small" in outcome.err
    assert outcome.err.count("\n") == 1


def test_a_key_for_all_and_a_key_per_line_exclude_each_other(millstream: Millstream) -> None:
    assert millstream("produce", "t", "v", "-k", "k", "-K", ":").code == 2


def test_a_header_needs_a_value(millstream: Millstream) -> None:
    assert millstream("produce", "t", "v", "-H", "name").code == 2


def test_an_interruption_does_not_wait_for_a_broker_that_is_away_and_says_what_is_not_known(
    millstream: Millstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Broker() as broker:
        broker.create_topic("t")

        def lines() -> Iterator[bytes]:
            yield b"first"
            broker.consume("t", 1)
            broker.stop()
            yield b"second"
            raise KeyboardInterrupt

        brokers = broker.bootstrap_servers
        monkeypatch.setattr(command, "_lines_of_stdin", lines)
        monkeypatch.setattr(command, "INTERRUPTED_S", 0.5)
        outcome = millstream("produce", "t", "-b", brokers)
    known = "interrupted: sent 1 record to t: partition 0 offsets 0-0; 1 more may have arrived or not\n"
    assert (outcome.code, outcome.err) == (130, known)


def test_a_directory_to_follow_is_refused_before_anything_is_made(millstream: Millstream, brokers: list[str], tmp_path: Path) -> None:
    state = tmp_path / "state"
    outcome = millstream("produce", "cli-followed-directory", "--follow", str(tmp_path), "--state", str(state), *brokers)
    assert (outcome.code, outcome.err) == (2, f"millstream: {tmp_path} is a directory: name its files.\n")
    assert list(tmp_path.iterdir()) == []
    assert "cli-followed-directory" not in millstream("topic", "list", *brokers).out


def test_a_schema_that_is_not_there_is_named_once(millstream: Millstream, brokers: list[str]) -> None:
    flags = ["--value-format", "avro", "--value-schema", "missing.avsc", "--registry", "http://127.0.0.1:1"]
    outcome = millstream("produce", "cli-schema", "{}", *flags, *brokers)
    assert (outcome.code, outcome.err) == (2, "millstream: The schema in missing.avsc cannot be read: No such file or directory.\n")
