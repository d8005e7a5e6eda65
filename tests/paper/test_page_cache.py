"""Claims 6, 11 and 12: no cache of messages in the process, files sent by the kernel, flushed after a number of messages.

The broker relies on the page cache alone: it does not buffer messages itself, its memory does not grow with the data, and the cache stays
warm when the process restarts. Messages go from file to socket with sendfile, without passing through the process. Segments are flushed
after a configured number of messages.
"""

import ctypes
import mmap
import os
from pathlib import Path

import pytest

from tests.batches import encode_batch
from tests.brokers import IS_KAFKA, Broker, StartBroker
from tests.system_calls import watch
from tests.topics import create_topic, fetch, produce, produce_values

MEGABYTES = 24


@pytest.fixture
def filled(broker: Broker) -> str:
    """A topic with some megabytes in batches of one megabyte less a little."""
    topic = create_topic(broker)
    produce_values(broker, topic, [bytes(100_000)] * MEGABYTES * 10, batch_size=10)
    return topic


def fetch_everything(broker: Broker, topic: str) -> int:
    """Fetch the whole partition in pieces of several batches; returns the number of bytes."""
    total = offset = 0
    with broker.connect() as connection:
        while offset < MEGABYTES * 10:
            records = fetch(connection, topic, offset, max_bytes=4_000_000).records
            whole = len(records) // 1_000_000
            total += len(records)
            offset += whole * 10
    return total


def test_messages_go_from_file_to_socket_with_sendfile(broker: Broker, filled: str, tmp_path: Path) -> None:
    with watch(broker, "sendfile,sendfile64", tmp_path) as trace:
        total = fetch_everything(broker, filled)
    sent = [call.result for call in trace.named("sendfile", "sendfile64") if f"{filled}-0" in call.arguments]
    assert sum(sent) >= total * 0.95


def test_messages_do_not_pass_through_the_process_when_they_are_consumed(broker: Broker, filled: str, tmp_path: Path) -> None:
    if IS_KAFKA:
        pytest.skip("Kafka reads batch headers through its own buffers")
    with watch(broker, "read,pread64,preadv,preadv2,readv", tmp_path) as trace:
        total = fetch_everything(broker, filled)
    read = sum(call.result for call in trace.calls if f"{filled}-0" in call.arguments and ".log" in call.arguments and call.result > 0)
    assert read < total * 0.05


def test_each_batch_is_written_with_one_call(broker: Broker, topic: str, tmp_path: Path) -> None:
    with watch(broker, "write,pwrite64,writev,pwritev,pwritev2", tmp_path) as trace, broker.connect() as connection:
        for _ in range(20):
            assert produce(connection, topic, encode_batch([bytes(1000)] * 20)).error_code == 0
    writes = [call.result for call in trace.calls if f"{topic}-0" in call.arguments and ".log" in call.arguments]
    assert len(writes) == 20
    assert all(size > 20_000 for size in writes)


@pytest.mark.skipif(IS_KAFKA, reason="the memory of a JVM says little")
def test_memory_does_not_grow_with_the_data(broker: Broker, filled: str) -> None:
    fetch_everything(broker, filled)
    before = broker.resident_bytes()
    produce_values(broker, filled, [bytes(100_000)] * MEGABYTES * 20, batch_size=10)
    fetch_everything(broker, filled)
    assert broker.resident_bytes() - before < (MEGABYTES << 20) / 2


def test_cache_is_warm_when_the_process_restarts(start_broker: StartBroker) -> None:
    broker = start_broker()
    shares = []
    for _ in range(5):  # A machine that is short of memory may take pages back at any moment, but not every time.
        topic = create_topic(broker)
        produce_values(broker, topic, [bytes(100_000)] * 50, batch_size=10)
        broker.stop()
        broker.start()
        (segment,) = broker.partition_directory(topic).glob("*.log")
        shares.append(cached_share(segment))
        if shares[-1] > 0.9:
            return
    pytest.fail(f"of a segment that was just written so much is in memory after a restart: {shares}")


def test_segments_are_flushed_after_the_number_of_messages_that_is_set(broker: Broker, tmp_path: Path) -> None:
    flushing = create_topic(broker, configs={"flush.messages": 10})
    lazy = create_topic(broker)
    with watch(broker, "fsync,fdatasync", tmp_path) as trace, broker.connect() as connection:
        for _ in range(50):
            assert produce(connection, flushing, encode_batch([b"x"])).error_code == 0
            assert produce(connection, lazy, encode_batch([b"x"])).error_code == 0
    flushed = [call for call in trace.calls if f"{flushing}-0" in call.arguments and ".log" in call.arguments]
    assert 4 <= len(flushed) <= 10
    assert [call for call in trace.calls if f"{lazy}-0" in call.arguments and ".log" in call.arguments] == []


def test_message_is_on_the_disk_before_it_is_acknowledged_when_every_message_is_flushed(broker: Broker, tmp_path: Path) -> None:
    topic = create_topic(broker, configs={"flush.messages": 1})
    with watch(broker, "fsync,fdatasync", tmp_path) as trace, broker.connect() as connection:
        for _ in range(10):
            assert produce(connection, topic, encode_batch([b"x"])).error_code == 0
    flushed = [call for call in trace.calls if f"{topic}-0" in call.arguments and ".log" in call.arguments]
    assert len(flushed) >= 10


def cached_share(path: Path) -> float:
    """The share of the file's pages that are in the page cache (mincore)."""
    size = path.stat().st_size
    pages = -(-size // mmap.PAGESIZE)
    with path.open("r+b") as file, mmap.mmap(file.fileno(), size, flags=mmap.MAP_SHARED) as mapped:
        present = (ctypes.c_ubyte * pages)()
        library = ctypes.CDLL(None, use_errno=True)
        start = ctypes.c_char.from_buffer(mapped)
        result = library.mincore(ctypes.c_void_p(ctypes.addressof(start)), ctypes.c_size_t(size), present)
        del start
        assert result == 0, os.strerror(ctypes.get_errno())
        return sum(page & 1 for page in present) / pages
