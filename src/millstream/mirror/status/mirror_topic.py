"""The topic `_mirror` at the target: what mirrors report of themselves, by key, the last value of each kept (it is compacted).

    status/<mirror>/<process>            JSON of a `ProcessStatus`
    status/<mirror>/<process>/<topic>    JSON: {"at_ms": ..., "partitions": [`PartitionStatus`, ...]}

Keys that begin otherwise are others': commands to a mirror (`paused_topics`). A record that is not what it should be is skipped.
"""

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, fields, replace
from typing import Any, Final

from millstream.client.admin.topic_creation import own_replicas, replicas_request
from millstream.client.codecs.fetch import FetchFrom, FetchRequest
from millstream.client.codecs.produce import BatchFor, ProduceRequest
from millstream.client.errors import kafka_error
from millstream.errors import MillstreamError, TopicAlreadyExists
from millstream.mirror.clusters.side import Side
from millstream.mirror.clusters.topic_admin import create_topic
from millstream.mirror.status.status import RUNNING, SILENT, MirrorStatus, PartitionStatus, ProcessStatus
from millstream.offset import EARLIEST, LATEST
from millstream.topic_partition import TopicPartition
from millstream.wire.batch import split_batches
from millstream.wire.compression import Codec
from millstream.wire.records import decode_records, encode_key_values

TOPIC: Final = "_mirror"
PARTITION: Final = TopicPartition(TOPIC, 0)
OPTIONS: Final = {"cleanup.policy": "compact", "segment.bytes": str(1 << 20), "segment.ms": "600000", "min.cleanable.dirty.ratio": "0.1"}
"""Segments are short, because the last one is never compacted, and every reader begins at the first."""
SILENT_MS: Final = 15_000
"""A process that has reported nothing for so long is not there any more."""
_STATUS: Final = "status"
_PROCESS_SLASHES: Final = 2
_PIECE_BYTES: Final = 4 << 20
_TIMEOUT_MS: Final = 10_000
_BATCH_BYTES: Final = 512 << 10
"""Keys and values in a batch; a topic of thousands of partitions is a larger one, and compressed it fits."""
_SMALL_BYTES: Final = 16 << 10
"""Below it compression is not worth its while."""

Entries = Mapping[str, bytes | None]
"""Values by key; None deletes a key."""


class MirrorTopic:
    """Reads and writes the topic."""

    def __init__(self, target: Side) -> None:
        self._target = target
        self._entries: dict[str, bytes] = {}
        self._position = -1
        """Up to where the topic was read; -1 if it was not."""

    async def write(self, entries: Entries, *, now_ms: int) -> None:
        """Append the entries; the topic is created if there is none."""
        if TOPIC not in self._target.metadata.topics:
            await self._create()
        for batch in entry_batches(entries, now_ms=now_ms):
            answer = await self._target.ask_leader(PARTITION, ProduceRequest([BatchFor(*PARTITION, batch)], timeout_ms=_TIMEOUT_MS))
            for produced in answer.partitions:
                if produced.error_code:
                    raise kafka_error(produced.error_code, produced.error_message or f"{TOPIC} cannot be written to")

    async def read(self) -> Mapping[str, bytes]:
        """The last value of each key; none at all if there is no such topic. Later calls read what is new."""
        if not self._target.cluster_id:
            await self._target.refresh()
        if TOPIC not in self._target.metadata.topics:
            return {}
        end = (await self._target.offsets({PARTITION: LATEST}))[PARTITION].offset
        if not 0 <= self._position <= end:  # It is read for the first time, or was made anew.
            self._position = (await self._target.offsets({PARTITION: EARLIEST}))[PARTITION].offset
            self._entries = {}
        while self._position < end:
            wanted = FetchFrom(*PARTITION, self._position, max_bytes=_PIECE_BYTES)
            answer = await self._target.ask_leader(PARTITION, FetchRequest([wanted], max_wait_ms=0))
            [found] = answer.partitions
            if found.error_code:
                self._position = -1
                raise kafka_error(found.error_code, f"{TOPIC} cannot be read")
            batches = list(split_batches(found.records))
            if not batches:
                break
            for header, batch in batches:
                self._position = header.next_offset
                for record in decode_records(batch) if header.record_count and not header.is_control else ():
                    self._apply((record.key or b"").decode(errors="replace"), record.value)
        return self._entries

    def _apply(self, key: str, value: bytes | None) -> None:
        if value is None:
            self._entries.pop(key, None)
        else:
            self._entries[key] = value

    async def _create(self) -> None:
        with suppress(TopicAlreadyExists):
            await create_topic(self._target, TOPIC, partitions=1, replicas=await self._replicas(), options=OPTIONS)
        await self._target.refresh()

    async def _replicas(self) -> int:
        brokers = self._target.metadata.brokers
        for broker_id, address in brokers.items():
            with suppress(MillstreamError):
                return own_replicas(len(brokers), await self._target.ask_at(address, replicas_request(broker_id)))
        return own_replicas(len(brokers), None)


def entry_batches(entries: Entries, *, now_ms: int) -> Iterator[bytes]:
    """The entries as batches that brokers take: thousands of partitions are more than one may hold (`max.message.bytes`)."""
    pairs: list[tuple[bytes, bytes | None]] = []
    size = 0
    for key, value in entries.items():
        own = len(key) + len(value or b"")
        if pairs and size + own > _BATCH_BYTES:
            yield encode_key_values(pairs, timestamp=now_ms, codec=Codec.GZIP)
            pairs, size = [], 0
        pairs.append((key.encode(), value))
        size += own
    if pairs:
        yield encode_key_values(pairs, timestamp=now_ms, codec=Codec.NONE if size < _SMALL_BYTES else Codec.GZIP)


def status_entries(process: ProcessStatus, partitions: list[PartitionStatus]) -> dict[str, bytes]:
    """What a process writes about itself."""
    key = f"{_STATUS}/{process.name}/{process.member}"
    by_topic: dict[str, list[object]] = defaultdict(list)
    for one in partitions:
        by_topic[one.topic].append(asdict(one))
    entries = {topic_key(process, topic): _json({"at_ms": process.at_ms, "partitions": entries}) for topic, entries in by_topic.items()}
    return entries | {key: _json(asdict(process))}


def topic_key(process: ProcessStatus, topic: str) -> str:
    """The key of what a process says about a topic."""
    return f"{_STATUS}/{process.name}/{process.member}/{topic}"


def stale_keys(entries: Mapping[str, bytes], name: str, *, before_ms: int) -> list[str]:
    """What processes of the mirror wrote that have said nothing since then: it may be deleted."""
    stale = {
        key
        for key, document in _documents(entries)
        if key.startswith(f"{_STATUS}/{name}/") and key.count("/") == _PROCESS_SLASHES and document["at_ms"] < before_ms
    }
    return [key for key in entries if key in stale or key.rpartition("/")[0] in stale]


def read_statuses(entries: Mapping[str, bytes], *, not_before_ms: int) -> list[MirrorStatus]:
    """All mirrors, with the processes that have reported since then; if there are none with the last ones, as silent."""
    processes: dict[str, list[ProcessStatus]] = defaultdict(list)
    partitions: dict[tuple[str, str], list[tuple[int, PartitionStatus]]] = defaultdict(list)
    for key, document in _documents(entries):
        parts = key.split("/")
        if len(parts) == 3 and {field.name for field in fields(ProcessStatus)} <= document.keys():
            processes[parts[1]].append(ProcessStatus(**{field.name: document[field.name] for field in fields(ProcessStatus)}))
        elif len(parts) == 4 and isinstance(document.get("partitions"), list):
            found = [PartitionStatus.parse(entry) for entry in document["partitions"] if isinstance(entry, dict)]
            partitions[parts[1], parts[2]] += [(document["at_ms"], one) for one in found if one is not None]
    return [_merge(name, members, partitions, not_before_ms) for name, members in sorted(processes.items())]


def _merge(
    name: str,
    members: list[ProcessStatus],
    partitions: Mapping[tuple[str, str], list[tuple[int, PartitionStatus]]],
    not_before_ms: int,
) -> MirrorStatus:
    newest = max(members, key=lambda process: process.at_ms)
    together = min(not_before_ms, newest.at_ms - SILENT_MS)
    """If none has reported since then, those that shared the work with the last one are shown."""
    shown = [
        replace(process, state=SILENT) if process.state == RUNNING and process.at_ms < not_before_ms else process
        for process in members
        if process.at_ms >= together
    ]
    latest: dict[tuple[str, int], tuple[int, PartitionStatus]] = {}
    for process in shown:
        for at_ms, one in partitions.get((name, process.member), []):
            if at_ms >= latest.get((one.topic, one.partition), (0, one))[0]:
                latest[one.topic, one.partition] = (at_ms, one)
    ordered = [latest[key][1] for key in sorted(latest)]
    if all(process.state != RUNNING for process in shown):
        ordered = [replace(one, messages_per_second=0.0, bytes_per_second=0.0) for one in ordered]
    return MirrorStatus(name, shown, ordered)


def _documents(entries: Mapping[str, bytes]) -> Iterator[tuple[str, dict[str, Any]]]:
    for key, value in entries.items():
        if key.startswith(f"{_STATUS}/"):
            try:
                document = json.loads(value)
            except (ValueError, RecursionError):
                continue
            if isinstance(document, dict) and type(document.get("at_ms")) is int and isinstance(document.get("refused", {}), dict):
                yield key, document


def _json(document: object) -> bytes:
    return json.dumps(document, separators=(",", ":")).encode()
