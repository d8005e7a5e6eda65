"""The schema registry: look-ups by id, registrations, start with many schemas, and Avro beside Confluent's own serialisers.

Look-ups and starts have nothing to do with the broker, so they run on Millstream's alone; registrations wait for the log, so both brokers
are measured. Avro is measured in CPU time. `per core` is what one core does when it does nothing else: requests divided by the CPU time of
the registry's process.
"""

import json
from collections.abc import Callable
from time import perf_counter, process_time
from typing import Any

from confluent_kafka import Producer

from bench.case import Bar, BenchError, Case, Context, Metric, Values
from bench.measure import percentile
from bench.registry_process import RawClient, Registry
from millstream.registry.avro_deserializer import AvroDeserializer
from millstream.registry.avro_serializer import AvroSerializer
from millstream.registry.client import RegistryClient
from millstream.registry.model.records import Content, StoredVersion, encode_key, encode_value

CONNECTIONS = 8
TURN = 1_000
SCHEMA: dict[str, Any] = {
    "type": "record",
    "name": "Click",
    "namespace": "bench",
    "fields": [
        {"name": "page", "type": "string"},
        {"name": "user", "type": ["null", "string"], "default": None},
        {"name": "at", "type": "long"},
        {"name": "duration", "type": "double"},
        {"name": "tags", "type": {"type": "array", "items": "string"}},
        {
            "name": "device",
            "type": {"type": "record", "name": "Device", "fields": [{"name": "os", "type": "string"}, {"name": "w", "type": "int"}]},
        },
    ],
}
VALUE = {
    "page": "/index.html",
    "user": "ann",
    "at": 1_700_000_000_000,
    "duration": 0.25,
    "tags": ["a", "b"],
    "device": {"os": "x", "w": 800},
}


def numbered(number: int) -> str:
    """A schema like the others, with a name of its own."""
    return json.dumps({**SCHEMA, "name": f"Click{number}"}, separators=(",", ":"))


class RegistryLookups(Case):
    """Schemas by id, from the answers that are kept."""

    name = "registry-lookups"
    title = f"cached schema by id, {CONNECTIONS} connections"
    isolated = True
    metrics = (
        Metric("throughput", "requests/s", summary="max"),
        Metric("per core", "requests/s", Bar(3_000, "at least", "value"), summary="max"),
    )

    def __init__(self, requests: int) -> None:
        self.requests = requests

    def run(self, context: Context) -> Values:
        return _on_a_registry(context, self._measure)

    def _measure(self, registry: Registry) -> Values:
        with RegistryClient(registry.url) as client:
            number = client.register("s", json.dumps(SCHEMA)).schema_id
        request = f"GET /schemas/ids/{number} HTTP/1.1\r\nHost: x\r\nAccept: application/vnd.schemaregistry.v1+json\r\n\r\n".encode()
        raw = RawClient(registry.port, CONNECTIONS)
        try:
            for _ in range(200):
                raw.ask_all(request)
            rounds = self.requests // CONNECTIONS
            cpu, began = registry.cpu_seconds(), perf_counter()
            for _ in range(rounds):
                raw.ask_all(request)
            seconds, cpu = perf_counter() - began, registry.cpu_seconds() - cpu
        finally:
            raw.close()
        return {"throughput": rounds * CONNECTIONS / seconds, "per core": rounds * CONNECTIONS / cpu}


class Registrations(Case):
    """New schemas one after the other: each is written, acknowledged by the log and read back before it is answered."""

    name = "registry-registrations"
    title = "registering new schemas, one client"
    isolated = True
    metrics = (Metric("throughput", "schemas/s", summary="max"), Metric("p50", "ms"), Metric("p99", "ms"))

    def __init__(self, count: int) -> None:
        self.count = count

    def run(self, context: Context) -> Values:
        return _on_a_registry(context, self._measure)

    def _measure(self, registry: Registry) -> Values:
        times = []
        with RegistryClient(registry.url) as client:
            client.register("warm", '"int"')
            for number in range(self.count):
                began = perf_counter()
                client.register(f"subject-{number}", numbered(number))
                times.append(perf_counter() - began)
        return {"throughput": len(times) / sum(times), "p50": percentile(times, 50) * 1e3, "p99": percentile(times, 99) * 1e3}


class RegistryStart(Case):
    """From exec to ready on a log of many schemas."""

    isolated = True

    def __init__(self, schemas: int) -> None:
        self.schemas = schemas
        self.name = f"registry-start-{schemas}"
        self.title = f"start with {schemas} schemas"
        self.metrics = (
            Metric("time", "s", Bar(3.0, "at most", "value")),
            Metric("time without schemas", "s"),
            Metric("CPU to start", "s"),
            Metric("memory", "MB"),
            Metric("memory of the schemas", "MB"),
        )

    def run(self, context: Context) -> Values:
        broker = context.peer.start(context.directory / f"round-{context.round_number}")
        try:
            with Registry(broker.bootstrap_servers, context.directory) as empty:
                empty_bytes = empty.resident_bytes()
            self._fill(broker.bootstrap_servers)
            with Registry(broker.bootstrap_servers, context.directory) as full, RegistryClient(full.url) as client:
                cpu = full.cpu_seconds()
                if len(client.subjects()) != self.schemas:
                    raise BenchError(f"the registry has read {len(client.subjects())} subjects, and not {self.schemas}")
                megabytes = full.resident_bytes() / 1e6
        finally:
            broker.stop()
        return {
            "time": full.start_seconds,
            "time without schemas": empty.start_seconds,
            "CPU to start": cpu,
            "memory": megabytes,
            "memory of the schemas": megabytes - empty_bytes / 1e6,
        }

    def _fill(self, bootstrap_servers: str) -> None:
        producer = Producer({"bootstrap.servers": bootstrap_servers, "linger.ms": 50})
        for number in range(self.schemas):
            content = Content(numbered(number))
            record = StoredVersion(f"subject-{number}", 1, number + 1, content, content.guid).record()
            producer.produce("_schemas", encode_value(record.value), encode_key(record.key), 0)
            if number % 1_000 == 0:
                producer.poll(0)
        if producer.flush(60):
            raise BenchError("the schemas could not be written")


class AvroSerialisers(Case):
    """Values to messages and back, ours beside those of confluent-kafka, in turns."""

    name = "registry-avro"
    title = "Avro records of six fields, one thread"
    isolated = True
    metrics = (
        Metric("encode", "messages/s", summary="max"),
        Metric("encode, confluent-kafka", "messages/s", summary="max"),
        Metric("encode, ours / theirs", "times", Bar(1.0, "at least", "value")),
        Metric("decode", "messages/s", summary="max"),
        Metric("decode, confluent-kafka", "messages/s", summary="max"),
        Metric("decode, ours / theirs", "times", Bar(1.0, "at least", "value")),
    )

    def __init__(self, count: int) -> None:
        self.count = count

    def run(self, context: Context) -> Values:
        return _on_a_registry(context, self._measure)

    def _measure(self, registry: Registry) -> Values:
        from confluent_kafka.schema_registry import SchemaRegistryClient, topic_subject_name_strategy
        from confluent_kafka.schema_registry.avro import AvroDeserializer as TheirDeserializer
        from confluent_kafka.schema_registry.avro import AvroSerializer as TheirSerializer
        from confluent_kafka.serialization import MessageField, SerializationContext

        text = json.dumps(SCHEMA)
        with RegistryClient(registry.url) as client, SchemaRegistryClient({"url": registry.url}) as theirs:
            serialize, deserialize = AvroSerializer(client, text), AvroDeserializer(client)
            their_serialize = TheirSerializer(theirs, text, conf={"subject.name.strategy": topic_subject_name_strategy})
            their_deserialize = TheirDeserializer(theirs)
            context = SerializationContext("clicks", MessageField.VALUE)
            message = serialize(VALUE, "clicks")
            if message != their_serialize(VALUE, context) or deserialize(message) != VALUE:
                raise BenchError("the serialisers do not agree")
            encode = self._rates(lambda: serialize(VALUE, "clicks"), lambda: their_serialize(VALUE, context))
            decode = self._rates(lambda: deserialize(message), lambda: their_deserialize(message, context))
        values: dict[str, float] = {}
        for way, (own, other) in (("encode", encode), ("decode", decode)):
            values |= {way: own, f"{way}, confluent-kafka": other, f"{way}, ours / theirs": own / other}
        return values

    def _rates(self, ours: Callable[[], object], theirs: Callable[[], object]) -> tuple[float, float]:
        """How often each can be done in a second of CPU time, measured in short turns, so that both meet the same machine."""
        spent = [0.0, 0.0]
        turns = self.count // TURN
        for turn in range(turns + 1):
            for index, work in enumerate((ours, theirs)):
                began = process_time()
                for _ in range(TURN):
                    work()
                # The first turn warms up.
                spent[index] += process_time() - began if turn else 0.0
        return turns * TURN / spent[0], turns * TURN / spent[1]


def _on_a_registry(context: Context, measure: Callable[[Registry], Values]) -> Values:
    """Measure on a broker and a registry that are started for it."""
    broker = context.peer.start(context.directory / f"round-{context.round_number}")
    try:
        with Registry(broker.bootstrap_servers, context.directory) as registry:
            return measure(registry)
    finally:
        broker.stop()
