"""Our serialisers and Confluent's read each other's messages, through a topic and without one."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from itertools import islice
from typing import Any

import pytest
from confluent_kafka import Consumer, DeserializingConsumer, Producer, SerializingProducer, TopicPartition
from confluent_kafka.schema_registry import (
    SchemaRegistryClient,
    header_schema_id_serializer,
    record_subject_name_strategy,
    topic_subject_name_strategy,
)
from confluent_kafka.schema_registry.avro import AvroDeserializer as ConfluentDeserializer
from confluent_kafka.schema_registry.avro import AvroSerializer as ConfluentSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from millstream import Consumer as PaperConsumer
from millstream import MessageSet
from millstream import Producer as PaperProducer
from millstream.errors import UsageError
from millstream.registry.avro_deserializer import AvroDeserializer
from millstream.registry.avro_serializer import AvroSerializer, record_name, topic_record_name
from millstream.registry.client import RegistryClient
from millstream.registry.errors import IncompatibleSchema, SerializationFailed
from millstream.registry.model.records import Reference
from tests.brokers import IS_KAFKA, Broker, MillstreamBroker, StartBroker
from tests.registry.registry_process import RegistryProcess

CLICK = {
    "type": "record",
    "name": "Click",
    "namespace": "shop",
    "fields": [{"name": "page", "type": "string"}, {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}}],
}
WIDER = {**CLICK, "fields": [{"name": "page", "type": "string"}, {"name": "user", "type": ["null", "string"], "default": None}]}


@dataclass
class Context:
    """Topic and headers of a message."""

    topic: str | None
    headers: list[tuple[str, Any]] = field(default_factory=list)


@pytest.fixture
def ours(registry: RegistryProcess) -> Iterator[RegistryClient]:
    with registry.client() as client:
        yield client


@pytest.fixture
def theirs(registry: RegistryProcess) -> Iterator[SchemaRegistryClient]:
    with SchemaRegistryClient({"url": registry.url}) as client:
        yield client


def value(page: str = "/") -> dict[str, Any]:
    from datetime import UTC, datetime

    return {"page": page, "at": datetime(2026, 1, 31, tzinfo=UTC)}


def confluents(client: SchemaRegistryClient, schema: Any, **conf: Any) -> ConfluentSerializer:
    made: ConfluentSerializer = ConfluentSerializer(
        client, json.dumps(schema), conf={"subject.name.strategy": topic_subject_name_strategy, **conf}
    )
    return made


def test_each_reads_what_the_other_wrote(ours: RegistryClient, theirs: SchemaRegistryClient, subject: str) -> None:
    context = SerializationContext(subject, MessageField.VALUE)
    written = [AvroSerializer(ours, json.dumps(CLICK))(value(), subject), confluents(theirs, CLICK)(value(), context)]
    assert written[0] == written[1]
    for message in written:
        assert AvroDeserializer(ours)(message) == ConfluentDeserializer(theirs)(message, context) == value()
    assert ours.latest(f"{subject}-value").version == 1


def test_a_reader_sees_what_its_schema_sees(ours: RegistryClient, subject: str) -> None:
    message = AvroSerializer(ours, json.dumps(CLICK))(value("/a"), subject)
    assert AvroDeserializer(ours, json.dumps(WIDER))(message) == {"page": "/a", "user": None}
    with pytest.raises(SerializationFailed, match="cannot be read"):
        AvroDeserializer(ours, json.dumps({"type": "record", "name": "Click", "fields": [{"name": "z", "type": "int"}]}))(message)


def test_the_subject_is_named_as_it_is_asked_for(ours: RegistryClient, subject: str) -> None:
    text = json.dumps(CLICK)
    AvroSerializer(ours, text, is_key=True)(value(), subject)
    AvroSerializer(ours, text, subject_name=record_name)(value())
    AvroSerializer(ours, text, subject_name=topic_record_name)(value(), subject)
    assert {f"{subject}-key", "shop.Click", f"{subject}-shop.Click"} <= set(ours.subjects())
    with pytest.raises(UsageError, match="topic"):
        AvroSerializer(ours, text)(value())
    with pytest.raises(UsageError, match="record"):
        AvroSerializer(ours, '"int"', subject_name=record_name)(1, subject)


def test_nothing_is_registered_when_that_is_switched_off(ours: RegistryClient, subject: str) -> None:
    serialize = AvroSerializer(ours, json.dumps(CLICK), auto_register=False)
    with pytest.raises(SerializationFailed, match="not registered"):
        serialize(value(), subject)
    assert f"{subject}-value" not in ours.subjects()
    registered = ours.register(f"{subject}-value", json.dumps(CLICK))
    message = serialize(value(), subject)
    assert message is not None
    assert message[:5] == b"\x00" + registered.schema_id.to_bytes(4, "big")


def test_the_latest_schema_of_the_subject_can_be_used(ours: RegistryClient, subject: str) -> None:
    ours.register(f"{subject}-value", json.dumps({**CLICK, "fields": CLICK["fields"][:1]}))
    ours.register(f"{subject}-value", json.dumps(WIDER))
    serialize = AvroSerializer(ours, use_latest=True, auto_register=False)
    assert AvroDeserializer(ours)(serialize({"page": "/", "user": "ann"}, subject)) == {"page": "/", "user": "ann"}
    with pytest.raises(UsageError):
        AvroSerializer(ours)


def test_an_incompatible_schema_is_reported_before_anything_is_sent(ours: RegistryClient, subject: str) -> None:
    AvroSerializer(ours, '"int"')(1, subject)
    with pytest.raises(IncompatibleSchema, match="TYPE_MISMATCH"):
        AvroSerializer(ours, '"string"')("x", subject)


def test_schemas_that_refer_to_others_are_used_with_them(ours: RegistryClient, theirs: SchemaRegistryClient, subject: str) -> None:
    ours.register(f"{subject}-a", json.dumps({"type": "record", "name": "A", "namespace": "n", "fields": [{"name": "x", "type": "int"}]}))
    ours.register(f"{subject}-b", json.dumps({"type": "array", "items": "n.A"}), references=[Reference("n.A", f"{subject}-a", 1)])
    schema = json.dumps({"type": "record", "name": "C", "fields": [{"name": "a", "type": "n.A"}]})
    serialize = AvroSerializer(ours, schema, references=[Reference("n.A", f"{subject}-a", 1)])
    message = serialize({"a": {"x": 1}}, subject)
    assert AvroDeserializer(ours)(message) == {"a": {"x": 1}}
    assert ConfluentDeserializer(theirs)(message, SerializationContext(subject, MessageField.VALUE)) == {"a": {"x": 1}}


def test_guids_in_headers_are_written_and_read(ours: RegistryClient, theirs: SchemaRegistryClient, subject: str) -> None:
    mine = Context(subject)
    message = AvroSerializer(ours, json.dumps(CLICK), in_header=True)(value(), mine)
    their_headers: list[tuple[str, Any]] = []
    context = SerializationContext(subject, MessageField.VALUE, their_headers)
    same = confluents(theirs, CLICK, **{"schema.id.serializer": header_schema_id_serializer})(value(), context)
    assert (message, mine.headers) == (same, their_headers)
    assert AvroDeserializer(ours)(message, mine) == ConfluentDeserializer(theirs)(message, context) == value()
    with pytest.raises(SerializationFailed, match="headers"):
        AvroSerializer(ours, json.dumps(CLICK), in_header=True)(value(), subject)


def test_a_guid_before_the_bytes_is_read(ours: RegistryClient, subject: str) -> None:
    from millstream.registry.wire_format import guid_header

    message = AvroSerializer(ours, '"long"')(7, subject)
    guid = ours.latest(f"{subject}-value").guid
    assert message is not None
    assert guid is not None
    assert AvroDeserializer(ours)(guid_header(guid) + message[5:]) == 7


def test_a_decimal_at_the_top_has_no_length_either(ours: RegistryClient, theirs: SchemaRegistryClient, subject: str) -> None:
    schema = json.dumps({"type": "bytes", "logicalType": "decimal", "precision": 8, "scale": 2})
    message = AvroSerializer(ours, schema)(Decimal("-12.34"), subject)
    assert message is not None
    assert message[5:] == (-1234).to_bytes(2, "big", signed=True)
    assert AvroDeserializer(ours)(message) == Decimal("-12.34")
    # Theirs knows bytes alone at the top, and gives the number as it was written.
    assert ConfluentDeserializer(theirs)(message, SerializationContext(subject, MessageField.VALUE)) == message[5:]


def test_bytes_at_the_top_are_brought_to_the_readers_type(ours: RegistryClient, subject: str) -> None:
    message = AvroSerializer(ours, '"bytes"')(bytearray(b"text"), subject)
    assert AvroDeserializer(ours, '"string"')(message) == "text"
    with pytest.raises(SerializationFailed, match="does not fit"):
        AvroSerializer(ours, '"bytes"')(5, subject)


@pytest.mark.parametrize("schema", ["bytes", "string", "int", ["null", "int"], {"type": "map", "values": "double"}])
def test_schemas_that_are_no_records_work_too(ours: RegistryClient, theirs: SchemaRegistryClient, subject: str, schema: Any) -> None:
    examples: dict[str, Any] = {"bytes": b"\x00raw", "string": "text", "int": 5}
    example = examples.get(schema) if isinstance(schema, str) else 5 if isinstance(schema, list) else {"a": 1.5}
    message = AvroSerializer(ours, json.dumps(schema))(example, subject)
    assert AvroDeserializer(ours)(message) == example
    context = SerializationContext(subject, MessageField.VALUE)
    assert ConfluentDeserializer(theirs)(message, context) == example


def test_nothing_stays_nothing(ours: RegistryClient, subject: str) -> None:
    assert AvroSerializer(ours, '"int"')(None, subject) is None
    assert AvroDeserializer(ours)(None) is None


@pytest.mark.parametrize(
    ("message", "what"),
    [
        (b"", "not written with a schema registry"),
        (b"hello", "begins with 68 65"),
        (b"\x00\x00", "not written with a schema registry"),
        (b"\x00\x3b\x9a\xca\x00", "id 1000000000, which this registry does not know"),
        (b"\x01" + bytes(16), "GUID 00000000"),
    ],
)
def test_messages_that_cannot_be_read_are_errors(ours: RegistryClient, message: bytes, what: str) -> None:
    with pytest.raises(SerializationFailed, match=what):
        AvroDeserializer(ours)(message)


def test_a_value_that_does_not_fit_and_bytes_that_end_too_soon_are_reported(ours: RegistryClient, subject: str) -> None:
    serialize = AvroSerializer(ours, json.dumps(CLICK))
    with pytest.raises(SerializationFailed, match="does not fit"):
        serialize({"page": 1}, subject)
    message = serialize(value("/a/long/page"), subject)
    assert message is not None
    with pytest.raises(SerializationFailed, match="cannot be read"):
        AvroDeserializer(ours)(message[:8])


@pytest.mark.filterwarnings("ignore:.*is experimental:Warning")
def test_both_kinds_meet_in_a_topic(broker: Broker, ours: RegistryClient, theirs: SchemaRegistryClient, subject: str) -> None:
    servers = {"bootstrap.servers": broker.bootstrap_servers}
    serialize = AvroSerializer(ours, json.dumps(CLICK))
    plain = Producer(servers)
    plain.produce(subject, serialize(value("/ours"), subject))
    assert plain.flush(20) == 0
    serializing = SerializingProducer({**servers, "value.serializer": confluents(theirs, CLICK)})
    serializing.produce(subject, value=value("/theirs"))
    assert serializing.flush(20) == 0
    reader = {**servers, "group.id": subject, "auto.offset.reset": "earliest"}
    plain_consumer, decoding = Consumer(reader), DeserializingConsumer({**reader, "value.deserializer": ConfluentDeserializer(theirs)})
    try:
        plain_consumer.assign([TopicPartition(subject, 0, 0)])
        deserialize = AvroDeserializer(ours)
        pages = [deserialize(message.value())["page"] for message in plain_consumer.consume(2, 20)]
        decoding.assign([TopicPartition(subject, 0, 0)])
        decoded = [decoding.poll(20) for _ in range(2)]
    finally:
        plain_consumer.close()
        decoding.close()
    values: list[Any] = [None if message is None else message.value() for message in decoded]
    assert pages == [one["page"] for one in values] == ["/ours", "/theirs"]


def test_confluents_producer_can_call_our_serialisers(broker: Broker, ours: RegistryClient, subject: str) -> None:
    producer = SerializingProducer(
        {"bootstrap.servers": broker.bootstrap_servers, "value.serializer": AvroSerializer(ours, json.dumps(CLICK))}
    )
    producer.produce(subject, value=value())
    assert producer.flush(20) == 0
    assert ours.latest(f"{subject}-value").version == 1


def test_their_record_strategy_and_ours_agree(ours: RegistryClient, theirs: SchemaRegistryClient, subject: str) -> None:
    named = {**CLICK, "name": f"C{subject[8:]}"}
    confluents(theirs, named, **{"subject.name.strategy": record_subject_name_strategy})(
        value(), SerializationContext(subject, MessageField.VALUE)
    )
    AvroSerializer(ours, json.dumps(named), subject_name=record_name)(value(), subject)
    assert ours.versions(f"shop.C{subject[8:]}") == [1]


@pytest.mark.skipif(IS_KAFKA, reason="the paper's consumers find each other in the broker's own coordination")
def test_the_papers_producer_and_streams_carry_avro(start_broker: StartBroker, ours: RegistryClient, subject: str) -> None:
    broker = start_broker()
    assert isinstance(broker, MillstreamBroker)
    serialize, deserialize = AvroSerializer(ours, json.dumps(CLICK)), AvroDeserializer(ours, json.dumps(WIDER))
    with PaperProducer(broker.bootstrap_servers) as producer:
        producer.send(subject, MessageSet([serialize(value(f"/{number}"), subject) for number in range(3)]))
    with PaperConsumer(zookeeper=broker.coordination, group=subject) as consumer:
        [stream] = consumer.create_message_streams(subject, 1)
        pages = [deserialize(message.payload, message)["page"] for message in islice(stream, 3)]
    assert pages == ["/0", "/1", "/2"]
