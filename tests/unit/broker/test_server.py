import asyncio
import errno
import logging
import re
import shutil
import socket
import struct
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

from millstream.broker.metrics.sample import Sample, read_sample
from millstream.broker.network.descriptors import Descriptors
from millstream.broker.server import BrokerServer
from millstream.broker.server_options import ServerOptions
from millstream.broker.storage.storage import Storage
from millstream.coordination.cluster_view import ClusterView
from millstream.errors import StartupError, StorageError, UsageError
from millstream.files import FileHandle, Files
from millstream.monitoring.families import FAMILIES, strimzi_name
from tests.batches import encode_batch
from tests.connection import CREATE_TOPICS, DELETE_RECORDS, LIST_OFFSETS, PRODUCE, decode_response, encode_request

CLEAN = ".kafka_cleanshutdown"


def options_for(*data: Path, port: int = 0, options: Mapping[str, str] | None = None) -> ServerOptions:
    return ServerOptions(listen_port=port, coordination_port=0, data=data, options=options or {})


@asynccontextmanager
async def running(*data: Path, files: Files | None = None) -> AsyncIterator[BrokerServer]:
    async with BrokerServer(options_for(*data), files=files) as server:
        yield server


async def ask(server: BrokerServer, key: int, version: int, fields: Mapping[str, object]) -> Any:
    """One request on a connection of its own."""
    async with asyncio.timeout(20):
        reader, writer = await asyncio.open_connection(*server.address)
        writer.write(encode_request(key, version, fields))
        (size,) = struct.unpack(">i", await reader.readexactly(4))
        frame = await reader.readexactly(size)
        writer.close()
        await writer.wait_closed()
    return decode_response(key, version, frame)[1]


async def create(server: BrokerServer, name: str = "orders", *, partitions: int = 1, **configs: str) -> int:
    entry = {
        "name": name,
        "num_partitions": partitions,
        "replication_factor": 1,
        "configs": [{"name": key.replace("_", "."), "value": value} for key, value in configs.items()],
    }
    answer = await ask(server, CREATE_TOPICS, 7, {"topics": [entry], "timeout_ms": 20_000})
    return int(answer.topics[0].error_code)


async def produce(server: BrokerServer, name: str = "orders", *, acks: int = -1) -> int:
    data = [{"name": name, "partition_data": [{"index": 0, "records": encode_batch([b"value"])}]}]
    fields = {"transactional_id": None, "acks": acks, "timeout_ms": 20_000, "topic_data": data}
    answer = await ask(server, PRODUCE, 9, fields)
    return int(answer.responses[0].partition_responses[0].error_code)


async def offsets(server: BrokerServer) -> tuple[int, int]:
    found = []
    for timestamp in (-2, -1):
        topics = [{"name": "orders", "partitions": [{"partition_index": 0, "timestamp": timestamp}]}]
        answer = await ask(server, LIST_OFFSETS, 7, {"replica_id": -1, "isolation_level": 0, "topics": topics})
        found.append(answer.topics[0].partitions[0].offset)
    return found[0], found[1]


def is_clean(path: Path) -> bool:
    return (path / CLEAN).exists()


def files_in(path: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in path.iterdir() if file.is_file()}


@pytest.fixture
def taken_port() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        yield int(taken.getsockname()[1])


async def test_a_broker_starts_serves_and_stops_clean(tmp_path: Path) -> None:
    async with running(tmp_path) as server:
        assert await create(server) == 0
        assert await produce(server) == 0
        address = server.address
    assert is_clean(tmp_path)
    assert asyncio.all_tasks() == {asyncio.current_task()}
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection(*address)


async def test_a_broker_is_not_registered_before_its_logs_are_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Opening them may take minutes after a crash: until then nothing is to be led by it that others can lead, or placed on it."""
    known: list[tuple[int, ...]] = []
    really = Storage.apply

    async def apply(storage: Storage, view: ClusterView) -> None:
        await really(storage, view)
        known.append(tuple(view.brokers))

    monkeypatch.setattr(Storage, "apply", apply)
    async with running(tmp_path) as server:
        assert (known[0], known[-1]) == ((), (1,))
        assert await create(server) == 0


async def sampled(server: BrokerServer) -> Sample:
    sample = read_sample(BytesIO(b"".join([part async for part in server.sample()])))
    assert sample is not None
    return sample


async def test_what_the_parts_count_is_read_on_demand(tmp_path: Path) -> None:
    async with running(tmp_path) as server:
        before = await sampled(server)
        await create(server, partitions=3)
        await produce(server)
        after = await sampled(server)
    received = "kafka.server:type=socket-server-metrics,name=incoming-byte-total"
    assert after.broker.values[received] > before.broker.values[received] + 100
    assert (before.partitions, before.broker.requests.keys() & {"CreateTopics", "Produce"}) == ([], set())
    assert [(row.partition, row.leader, row.messages_in, row.produce_requests) for row in after.partitions] == [
        (0, 1, 1, 1),
        (1, 1, 0, 0),
        (2, 1, 0, 0),
    ]
    assert after.partitions[0].bytes_in == after.partitions[0].size_bytes > 0
    assert {name: sum(after.broker.requests[name][:-1]) for name in ("CreateTopics", "Produce")} == {"CreateTopics": 1, "Produce": 1}
    assert {strimzi_name(name) for name in after.broker.values} <= FAMILIES.keys()
    assert (after.broker.not_ready, after.broker.is_controller, sum(after.broker.topics.values())) == ("", True, 3)


async def test_what_was_written_is_there_after_a_restart(tmp_path: Path) -> None:
    async with running(tmp_path) as server:
        await create(server)
        await produce(server)
    async with running(tmp_path) as server:
        assert not is_clean(tmp_path)
        assert await offsets(server) == (0, 1)
        assert await produce(server) == 0


async def test_two_brokers_do_not_share_a_directory(tmp_path: Path) -> None:
    async with running(tmp_path):
        with pytest.raises(StartupError, match="in use by another broker"):
            async with running(tmp_path):
                pass


async def test_an_unknown_option_is_refused_before_anything_is_touched(tmp_path: Path) -> None:
    with pytest.raises(UsageError):
        async with BrokerServer(options_for(tmp_path / "data", options={"no.such.option": "1"})):
            pass
    assert not (tmp_path / "data").exists()


async def test_a_taken_port_is_one_clear_sentence_and_leaves_nothing_running(tmp_path: Path, taken_port: int) -> None:
    with pytest.raises(StartupError, match="another program uses this port"):
        async with BrokerServer(options_for(tmp_path, port=taken_port)):
            pass
    assert asyncio.all_tasks() == {asyncio.current_task()}
    async with running(tmp_path):
        pass


async def test_a_start_that_fails_leaves_the_directories_as_it_found_them(tmp_path: Path, taken_port: int) -> None:
    async with running(tmp_path) as server:
        await create(server)
        for _ in range(3):
            await produce(server)
        partitions = [{"partition_index": 0, "offset": 2}]
        await ask(server, DELETE_RECORDS, 2, {"topics": [{"name": "orders", "partitions": partitions}], "timeout_ms": 1000})
        assert await offsets(server) == (2, 3)
    before = files_in(tmp_path)
    with pytest.raises(StartupError):
        async with BrokerServer(options_for(tmp_path, port=taken_port)):
            pass
    assert files_in(tmp_path) == before
    async with running(tmp_path) as server:
        assert await offsets(server) == (2, 3)


async def test_a_start_that_fails_after_a_crash_does_not_pass_for_a_clean_stop(tmp_path: Path, taken_port: int) -> None:
    async with running(tmp_path) as server:
        await create(server)
        await produce(server)
    (tmp_path / CLEAN).unlink()
    segment = tmp_path / "orders-0" / "00000000000000000000.log"
    segment.write_bytes(segment.read_bytes() + b"half a batch that a crash left behind")
    with pytest.raises(StartupError):
        async with BrokerServer(options_for(tmp_path, port=taken_port)):
            pass
    assert not is_clean(tmp_path)
    async with running(tmp_path) as server:
        assert await produce(server) == 0
        assert await offsets(server) == (0, 2)


async def test_a_damaged_tree_is_reported_and_not_hidden_by_the_clean_up(tmp_path: Path) -> None:
    (tmp_path / "coordination").write_text("a file where the directory should be")
    with pytest.raises((StartupError, OSError)) as raised:
        async with running(tmp_path):
            pass
    assert not isinstance(raised.value, AttributeError)


async def test_the_tree_is_found_in_whatever_order_directories_are_given(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    async with running(one, other) as server:
        await create(server)
        await produce(server)
    async with running(other, one) as server:
        assert await offsets(server) == (0, 1)
    assert not (other / "coordination").exists()
    shutil.copytree(one / "coordination", other / "coordination")
    with pytest.raises(StartupError, match=r"there are coordination trees in .*/other and .*/one"):
        async with running(other, one):
            pass


async def test_a_tree_on_a_dead_disk_stops_the_start_and_one_that_was_removed_begins_anew(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    async with running(one, other) as server:
        await create(server)
    one.rename(tmp_path / "away")
    one.write_text("a disk that does not answer")
    with pytest.raises(StartupError, match=r"the coordination tree is in .*/one, which does not work"):
        async with running(one, other):
            pass
    one.unlink()
    (tmp_path / "away").rename(one)
    shutil.rmtree(one / "coordination")
    async with running(one, other) as server:
        assert await create(server, "later") == 0
    assert "it begins anew" in caplog.text
    assert [name.partition(".")[0] for name in Files().list_directory(tmp_path / "one") if name.endswith("-stray")] == ["orders-0"]


async def test_what_the_tree_remembers_is_missed_where_the_directories_remember_nothing(tmp_path: Path) -> None:
    async with running(tmp_path / "one") as server:
        await create(server)
    for found in (tmp_path / "one").iterdir():
        if found.name != "coordination":
            shutil.rmtree(found) if found.is_dir() else found.unlink()
    with pytest.raises(StartupError, match="data directories of this broker are missing") as refused:
        async with running(tmp_path / "one"):
            pass
    lost = re.findall(r"--forget-directory=(\S+)", str(refused.value))[0]
    options = ServerOptions(listen_port=0, coordination_port=0, data=(tmp_path / "one",), forget_directories=(lost,))
    async with BrokerServer(options) as server:
        assert await offsets(server) == (0, 0)


class DyingFiles(Files):
    """Directories in which every write fails from some moment on; the tree beside the logs stays whole."""

    def __init__(self) -> None:
        self.dead: set[Path] = set()

    def _check(self, path: Path) -> None:
        if any(path.is_relative_to(one) for one in self.dead) and "coordination" not in path.parts:
            raise OSError(errno.EIO, "input/output error")

    def pwritev(self, handle: FileHandle, buffers: object, position: int) -> int:
        self._check(handle.path)
        return super().pwritev(handle, buffers, position)  # type: ignore[arg-type]

    def fsync(self, handle: FileHandle) -> None:
        self._check(handle.path)
        super().fsync(handle)


async def test_the_last_directory_that_fails_ends_the_broker(tmp_path: Path) -> None:
    files = DyingFiles()
    async with running(tmp_path, files=files) as server:
        await create(server)
        files.dead.add(tmp_path)
        assert await produce(server) == StorageError.code
        with pytest.raises(StorageError, match="offline"):
            async with asyncio.timeout(20):
                await server.stopped()
    assert not is_clean(tmp_path)


async def test_with_another_directory_left_the_broker_goes_on(tmp_path: Path) -> None:
    files = DyingFiles()
    one, other = tmp_path / "one", tmp_path / "other"
    async with running(one, other, files=files) as server:
        for name in ("orders", "events"):
            assert await create(server, name) == 0
        dead = one if (one / "orders-0").exists() else other
        files.dead.add(dead)
        assert await produce(server, "orders") == StorageError.code
        assert await produce(server, "events") == 0
        assert await create(server, "later") == 0
        assert await produce(server, "later") == 0
    assert (is_clean(one), is_clean(other)) == (dead is other, dead is one)


async def test_a_produce_that_waits_for_the_disk_is_answered_when_the_disk_fails(tmp_path: Path) -> None:
    files = DyingFiles()
    async with running(tmp_path, files=files) as server:
        await create(server, flush_messages="1")
        assert await produce(server) == 0

        def fail(handle: FileHandle) -> None:
            raise OSError(errno.EIO, f"input/output error on {handle.path.name}")

        files.fsync = fail  # type: ignore[method-assign]
        assert await produce(server, acks=1) == StorageError.code


async def test_a_disk_that_fails_in_a_thread_ends_the_broker_on_the_loop(tmp_path: Path) -> None:
    async with running(tmp_path) as server:
        error = OSError(errno.EIO, "input/output error")
        await asyncio.to_thread(server._storage.logs.directories[0].fail, "writing a checkpoint", error)
        with pytest.raises(StorageError):
            async with asyncio.timeout(20):
                await server.stopped()


async def test_more_partitions_than_descriptors_are_reported_at_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with running(tmp_path) as server:
        assert await create(server, partitions=52) == 0
    assert "ulimit -n" not in caplog.text
    monkeypatch.setattr("millstream.broker.server.raise_descriptor_limit", lambda: 200)
    async with running(tmp_path):
        assert "there are 52 partitions here, and of 200 file descriptors enough for 51" in caplog.text


async def test_more_partitions_than_descriptors_are_reported_once_when_another_controller_made_them(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with running(tmp_path) as server:
        server._storage._descriptors = Descriptors(200, 50)  # the controller, which has more, does not know
        assert await create(server, partitions=52) == 0
        assert await create(server, "another") == 0
        assert caplog.text.count("partitions here, and of 200 file descriptors enough for 51") == 1


async def test_listening_on_all_addresses_advertises_the_name_of_the_machine(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    options = ServerOptions(listen_host="0.0.0.0", listen_port=0, coordination_port=0, data=(tmp_path,))
    with caplog.at_level(logging.WARNING):
        async with BrokerServer(options) as server:
            assert server._cluster.view().brokers[1].host == socket.gethostname()
    assert "--advertise" in caplog.text


async def test_a_taken_coordination_port_is_an_error_only_if_it_was_asked_for(tmp_path: Path, taken_port: int) -> None:
    options = ServerOptions(listen_port=0, coordination_port=taken_port, data=(tmp_path,))
    async with BrokerServer(options) as server:
        assert server.coordination_address[1] not in (0, taken_port)
    asked = ServerOptions(listen_port=0, coordination_port=taken_port, coordination_port_required=True, data=(tmp_path,))
    with pytest.raises(StartupError, match="the coordination cannot listen"):
        async with BrokerServer(asked):
            pass
    assert asyncio.all_tasks() == {asyncio.current_task()}
    assert is_clean(tmp_path)


async def test_a_broker_stands_for_election_when_its_logs_are_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with running(tmp_path) as server:
        assert await create(server) == 0
    server = BrokerServer(options_for(tmp_path))
    load = Storage._load_logs

    def load_logs(storage: Storage, view: ClusterView) -> None:
        # It may take minutes, in which a controller would decide nothing and keep the others from it.
        assert server._cluster._election.claim is None
        assert view.controller_id == -1
        load(storage, view)

    monkeypatch.setattr(Storage, "_load_logs", load_logs)
    async with server:
        assert await produce(server) == 0
