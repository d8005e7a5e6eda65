"""Records are written, well and badly, read back with and without sessions, looked for by time and deleted."""

import gzip
from typing import Any
from uuid import UUID

from tests.batches import HEADER, Header, encode_batch, encode_block, encode_record
from tests.connection import (
    DELETE_RECORDS,
    DESCRIBE_PRODUCERS,
    FETCH,
    INCREMENTAL_ALTER_CONFIGS,
    INIT_PRODUCER_ID,
    LIST_OFFSETS,
    OFFSET_FOR_LEADER_EPOCH,
    PRODUCE,
)
from tests.differential.scenario import Scenario
from tests.differential.symbol import PerSide, Symbol, Symbols

FIRST_MS = 1_790_000_000_000
NOBODY = UUID(int=77)
TOPIC_CONFIGS: tuple[dict[str, str], ...] = (
    {},
    {"cleanup.policy": "compact"},
    {"max.message.bytes": "600"},
    {"segment.bytes": "1048576"},
    {"message.timestamp.before.max.ms": "1000", "message.timestamp.after.max.ms": "1000"},
)
# Nothing here lies about times: Kafka computes them anew, we keep what the header says (ADR 0002).
BAD_HEADERS: tuple[dict[str, int], ...] = (
    {"crc": 1},
    {"magic": 1},
    {"magic": 3},
    {"length": -1},
    {"length": 0},
    {"length": 10},
    {"length": 14},
    {"length": 1 << 20},
    {"base_offset": 5},
    {"base_offset": -1},
    {"last_offset_delta": 9},
    {"last_offset_delta": -1},
    {"record_count": 0},
    {"record_count": 7},
    {"record_count": -1},
    {"attributes": 0x20},
    {"attributes": 0x10},
    {"attributes": 0x05},
    {"attributes": 0x07},
    {"attributes": 0x01},
    {"producer_id": 4_000_000, "producer_epoch": 0, "base_sequence": 3},
    {"producer_id": 5_000_000, "producer_epoch": 0, "base_sequence": -1},
    {"leader_epoch": 9},
)
MAX_TIMESTAMP = -3
SPECIAL_TIMES = (-1, -2, -3, -4, -5, -6, -7, -100)


def shown(data: bytes) -> PerSide:
    """Bytes that a report tells by their header; the seed makes them again."""
    header = Header._make(HEADER.unpack_from(data)) if len(data) >= HEADER.size else data
    return PerSide(f"{len(data)} bytes, {header!r}", lambda _: data)


class LogScenario(Scenario):
    """Produce, Fetch, ListOffsets, OffsetForLeaderEpoch, DeleteRecords, InitProducerId, DescribeProducers."""

    name = "log"

    def prepare(self) -> None:
        self.time_ms = FIRST_MS
        self.ends: dict[tuple[str, int], int] = {}
        self.producers: list[tuple[Symbol, int]] = []
        self.sequences: dict[tuple[Symbol, str, int], int] = {}
        self.session: tuple[object, int] = (0, 0)
        self.session_connection = 0
        self.given_up: set[tuple[str, int]] = set()
        self.cut: set[tuple[str, int]] = set()
        """Where records were deleted: Kafka's largest time is then that of a record that is gone, ours of one that is there."""
        self.by_id = self.chance(60)
        for number, configs in enumerate(TOPIC_CONFIGS):
            partitions = self.random.randint(1, 4) if number else 24
            self.create_topic(f"{self.prefix}{number}", partitions, configs)
            if number:
                self.check_records(f"{self.prefix}{number}")
        for _ in range(6):
            self.produce_well()

    def check_records(self, name: str) -> None:
        """Let Millstream look at every record, as Kafka does; on the first topic it believes the headers (ADR 0002)."""
        configs = [{"name": "check.records", "value": "true", "config_operation": 0}]
        fields = {"resources": [{"resource_type": 2, "resource_name": name, "configs": configs}]}
        self.pair.ours.send("main", INCREMENTAL_ALTER_CONFIGS, 1, fields)
        self.pair.ours.receive("main", INCREMENTAL_ALTER_CONFIGS, 1)

    def step(self) -> None:
        kinds = [self.produce_well, self.produce_well, self.produce_badly, self.produce_idempotently, self.fetch, self.fetch,
                 self.fetch_in_session, self.fetch_in_session, self.offsets_by_time, self.offsets_by_time, self.epochs, self.delete_records,
                 self.new_producer, self.describe_producers]  # fmt: skip
        self.random.choice(kinds)()

    def place(self) -> tuple[str, int]:
        places = [(name, index) for name in self.topic_ids for index in range(self.partitions[name])]
        return self.random.choice([place for place in places if place not in self.given_up])

    def any_place(self) -> tuple[str, int]:
        name, index = self.place()
        return self.mostly((name, index), (name, 50), (name, -1), (self.prefix + "missing", 0), percent=93)

    def named(self, name: str) -> dict[str, object]:
        entry = self.topic(name)
        return entry | {"topic_id": NOBODY} if entry["topic_id"] is None else entry

    # --- writing ---

    def good_batch(self, **fields: int) -> bytes:
        """Up to five records, sometimes compressed; `fields` overrides fields of the header."""
        count = self.random.randint(1, 5)
        self.time_ms += self.random.choice([0, 0, 1, 10, 1000, -500])
        size = self.random.choice([0, 1, 10, 100, 400, 3000])
        keys: list[bytes | None] = [self.mostly(b"key%d" % self.random.randrange(5), None) for _ in range(count)]
        values: list[bytes | None] = [self.mostly(self.random.randbytes(size), None) for _ in range(count)]
        step = self.random.choice([0, 0, 1, 7, -3])
        first = self.time_ms
        last = max(first, first + step * (count - 1))
        if self.chance(20):
            records = b"".join(
                encode_record(index, value, key=keys[index], timestamp_delta=step * index) for index, value in enumerate(values)
            )
            return encode_block(
                gzip.compress(records, mtime=0), count, timestamp=first, **({"max_timestamp": last, "attributes": 1} | fields)
            )
        return encode_batch(values, keys=keys, timestamp=first, timestamp_step=step, **({"max_timestamp": last} | fields))

    def produce(self, places: list[tuple[str, int]], batches: list[Any], *, acks: int = -1) -> Any:
        topics: dict[str, list[dict[str, object]]] = {}
        for (name, index), batch in zip(places, batches, strict=True):
            topics.setdefault(name, []).append({"index": index, "records": shown(batch) if isinstance(batch, bytes) else batch})
        fields = {
            "transactional_id": None,
            "acks": acks,
            "timeout_ms": 10_000,
            "topic_data": [self.named(name) | {"partition_data": parts} for name, parts in topics.items()],
        }
        answer = self.ask(PRODUCE, fields, version=self.version(PRODUCE, 3))
        if any("error_code" in one.path for one in self.differences):
            # One has the batch and the other has not: from now on everything about this partition would be different.
            self.given_up.update(places)
        return answer

    def produce_well(self) -> None:
        acks = self.mostly(-1, 1, 1, 2, -2, percent=60)
        places = list(dict.fromkeys(self.any_place() for _ in range(self.random.randint(1, 4))))
        self.produce(places, [self.good_batch() for _ in places], acks=acks)
        for one in places:
            self.ends[one] = self.ends.get(one, 0) + 2

    def produce_badly(self) -> None:
        kind = self.random.randrange(8)
        batch: Any = self.good_batch(**self.random.choice(BAD_HEADERS))
        if kind == 0:
            batch = self.good_batch() + self.good_batch()
        elif kind == 1:
            good = self.good_batch()
            batch = self.random.choice(
                [b"", b"abc", bytes(12), bytes(20), bytes(61), good[:-1], good[:40], good[:16], good + bytes(12), good + bytes(61)]
            )
        elif kind == 2:
            batch = self.bad_records()
        elif kind == 3:
            batch = encode_batch([b"future"], keys=[b"k"], timestamp=FIRST_MS + 10**11)
        place = self.place()
        if place[0] != f"{self.prefix}0":
            self.produce([place], [batch])

    def bad_records(self) -> bytes:
        """A header that is right around records that are not; offsets out of order are left out, which Kafka lets pass uncompressed."""
        good = [encode_record(index, b"v%d" % index, key=b"k") for index in range(3)]
        body = self.random.choice([
            good[0][:-1] + good[1],
            good[0] + good[1] + b"\x00",
            good[0],
            b"\x01" + good[0],
            b"",
        ])  # fmt: skip
        block = self.mostly(body, gzip.compress(body, mtime=0), percent=50)
        attributes = 0 if block is body else 1
        return encode_block(block, 2, timestamp=self.time_ms, max_timestamp=self.time_ms, attributes=attributes)

    def new_producer(self) -> None:
        fields: dict[str, object] = {
            "transactional_id": self.mostly(None, "", percent=93),
            "transaction_timeout_ms": self.mostly(60_000, 0, -1, 1 << 30),
            "producer_id": -1,
            "producer_epoch": -1,
        }
        if self.producers and self.chance(30):
            producer, epoch = self.random.choice(self.producers)
            fields |= {"producer_id": producer, "producer_epoch": self.mostly(epoch, epoch + 1, -1)}
        answer = self.ask(INIT_PRODUCER_ID, fields)
        if answer["error_code"] == "none":
            self.producers.append((answer["producer_id"], answer["producer_epoch"]))

    def produce_idempotently(self) -> None:
        if not self.producers:
            return self.new_producer()
        (producer, epoch), (name, index) = self.random.choice(self.producers), self.place()
        key = (producer, name, index)
        sequence = self.sequences.get(key, 0) + self.mostly(0, 1, -1, -2, 50, percent=75)
        epoch = self.mostly(epoch, epoch + 1, max(0, epoch - 1), percent=92)
        values: list[bytes | None] = [b"%d" % number for number in range(self.random.randint(1, 3))]
        first = self.time_ms

        def make(symbols: Symbols) -> bytes:
            own = symbols.resolve(producer)
            keys: list[bytes | None] = [b"k"] * len(values)
            return encode_batch(values, keys=keys, timestamp=first, producer_id=own, producer_epoch=epoch, base_sequence=sequence)

        batch = PerSide(f"batch({len(values)} records, {producer}, epoch {epoch}, sequence {sequence})", make)
        answer = self.produce([(name, index)], [batch])
        if answer["responses"][0]["partition_responses"][0]["error_code"] == "none" and sequence >= self.sequences.get(key, 0):
            self.sequences[key] = sequence + len(values)
        return None

    # --- reading ---

    def offset(self, place: tuple[str, int]) -> int:
        end = self.ends.get(place, 0)
        return self.mostly(self.random.randint(0, end + 1), 0, -1, end + 100, -2)

    def wanted(self, places: list[tuple[str, int]], limits: tuple[int, ...]) -> list[dict[str, object]]:
        topics: dict[str, list[dict[str, object]]] = {}
        for name, index in places:
            wanted: dict[str, object] = {
                "partition": index,
                "current_leader_epoch": self.mostly(-1, 0, 1, 7, percent=80),
                "fetch_offset": self.offset((name, index)),
                "last_fetched_epoch": -1,
                "partition_max_bytes": self.random.choice(limits),
            }
            topics.setdefault(name, []).append(wanted)
        return [self.named(name) | {"partitions": parts} for name, parts in topics.items()]

    def fetch(self) -> None:
        places = list(dict.fromkeys(self.any_place() for _ in range(self.random.choice([1, 2, 5, 12, 40]))))
        limits = (1 << 20, 1 << 20, 500, 100, 70, 0)
        fields = {
            "replica_id": -1,
            "max_wait_ms": self.mostly(0, 1, 20),
            "min_bytes": self.mostly(0, 1, 100_000),
            "max_bytes": self.random.choice([1 << 26, 1 << 26, 10_000, 1000, 300, 0]),
            "isolation_level": self.mostly(0, 1, 1, 1, 7, percent=60),
            "session_id": 0,
            "session_epoch": -1,
            "topics": self.wanted(places, limits),
        }
        self.ask(FETCH, fields)

    def fetch_in_session(self) -> None:
        session, epoch = self.session
        low, high = (13, 18) if self.by_id else (7, 12)
        connection = f"session{self.session_connection}"
        places = [] if self.chance(50 if epoch else 5) else list(dict.fromkeys(self.any_place() for _ in range(self.random.randint(1, 10))))
        fields = {
            "replica_id": -1,
            "max_wait_ms": 0,
            "min_bytes": 0,
            "max_bytes": self.random.choice([1 << 26, 10_000, 1000]),
            "session_id": self.mostly(session, 999, percent=96),
            "session_epoch": self.mostly(epoch, epoch + 1, 0, -1, percent=94),
            "topics": self.wanted(places, (1 << 20, 1000, 300)),
            "forgotten_topics_data": [],
        }
        if epoch and self.chance(25):
            gone = [self.any_place() for _ in range(self.random.randint(1, 2))]
            fields["forgotten_topics_data"] = [self.named(name) | {"partitions": [index]} for name, index in gone]
        answer = self.ask(FETCH, fields, version=self.version(FETCH, low, high), connection=connection)
        if answer["error_code"] != "none" or fields["session_epoch"] == -1:
            self.session = (0, 0)
            self.by_id = self.chance(60)
        elif isinstance(answer["session_id"], Symbol):
            asked = fields["session_epoch"]
            assert isinstance(asked, int)
            self.session = (answer["session_id"], asked + 1)

    # --- offsets ---

    def offsets_by_time(self) -> None:
        version = self.version(LIST_OFFSETS)
        topics: dict[str, list[dict[str, object]]] = {}
        for name, index in [self.any_place() for _ in range(self.random.randint(1, 5))]:
            moment = self.random.choice(
                [*SPECIAL_TIMES, 0, FIRST_MS, self.time_ms, self.time_ms + 1, FIRST_MS + self.random.randint(-5, 20_000)]
            )
            if (name, index) in self.cut and moment == MAX_TIMESTAMP:
                continue
            wanted: dict[str, object] = {"partition_index": index, "timestamp": moment, "current_leader_epoch": self.mostly(-1, 0, 3)}
            topics.setdefault(name, []).append(wanted)
        fields = {
            "replica_id": -1,
            "isolation_level": self.mostly(0, 1, percent=60),
            "timeout_ms": 10_000,
            "topics": [{"name": name, "partitions": parts} for name, parts in topics.items()],
        }
        self.ask(LIST_OFFSETS, fields, version=version)

    def epochs(self) -> None:
        topics = []
        for name, index in [self.any_place() for _ in range(self.random.randint(1, 3))]:
            epoch = self.mostly(0, 1, -1, 5, percent=50)
            wanted = {"partition": index, "current_leader_epoch": self.mostly(-1, 0, 2), "leader_epoch": epoch}
            topics.append({"topic": name, "partitions": [wanted]})
        self.ask(OFFSET_FOR_LEADER_EPOCH, {"replica_id": -1, "topics": topics})

    def delete_records(self) -> None:
        topics: dict[str, list[dict[str, object]]] = {}
        for place in [self.any_place()] * self.mostly(1, 2) + [self.any_place()]:
            offset = self.mostly(self.random.randint(0, self.ends.get(place, 0) // 3), -1, -2, 10_000)
            topics.setdefault(place[0], []).append({"partition_index": place[1], "offset": offset})
            self.cut.add(place)
        fields = {"topics": [{"name": name, "partitions": parts} for name, parts in topics.items()], "timeout_ms": 10_000}
        self.ask(DELETE_RECORDS, fields)

    def describe_producers(self) -> None:
        name, index = self.any_place()
        self.ask(DESCRIBE_PRODUCERS, {"topics": [{"name": name, "partition_indexes": [index, self.mostly(0, 3, 60)]}]})
