"""Kafka's own tools, written in Java, where their jars are: the producer, the consumer without a group, the admin, the reader of files."""

from random import Random

import pytest

from tests.brokers import IS_KAFKA, Broker
from tests.clients.client import CODECS, Message
from tests.clients.confluent_client import ConfluentClient
from tests.java import run_tool
from tests.topics import create_topic, fresh_name, produce_values, read_all

TOOLS = "org.apache.kafka.tools"


@pytest.mark.parametrize(
    "settings", [("acks=1", "enable.idempotence=false"), ("acks=all", "compression.type=zstd"), ("acks=0", "enable.idempotence=false")]
)
def test_producer_performance_delivers_every_record(broker: Broker, topic: str, settings: tuple[str, str]) -> None:
    """With acks=all it is an idempotent producer, as Java's are by default."""
    properties = ["--producer-props", f"bootstrap.servers={broker.bootstrap_servers}", *settings]
    arguments = ["--topic", topic, "--num-records", "5000", "--record-size", "100", "--throughput", "-1"]
    output = run_tool(f"{TOOLS}.ProducerPerformance", *arguments, *properties)
    assert "5000 records sent" in output
    assert ConfluentClient().ends(broker, topic) == (0, 5000)


def test_console_producer_and_console_consumer_agree(broker: Broker, topic: str) -> None:
    lines = [f"key{number}\tvalue {number}" for number in range(20)]
    server = ["--bootstrap-server", broker.bootstrap_servers, "--topic", topic]
    run_tool(f"{TOOLS}.ConsoleProducer", *server, "--reader-property", "parse.key=true", stdin="\n".join(lines) + "\n")
    reading = ["--partition", "0", "--offset", "earliest", "--max-messages", "20", "--formatter-property", "print.key=true"]
    assert run_tool(f"{TOOLS}.consumer.ConsoleConsumer", *server, *reading).splitlines() == lines
    assert [record.key for record in read_all(broker, topic)] == [b"key%d" % number for number in range(20)]


def test_console_consumer_starts_in_the_middle(broker: Broker, topic: str) -> None:
    produce_values(broker, topic, [b"%d" % number for number in range(10)])
    arguments = [
        "--bootstrap-server",
        broker.bootstrap_servers,
        "--topic",
        topic,
        "--partition",
        "0",
        "--offset",
        "7",
        "--max-messages",
        "3",
    ]
    assert run_tool(f"{TOOLS}.consumer.ConsoleConsumer", *arguments).split() == ["7", "8", "9"]


def test_topic_command_creates_describes_and_deletes(broker: Broker) -> None:
    server, topic = ["--bootstrap-server", broker.bootstrap_servers], fresh_name()
    run_tool(f"{TOOLS}.TopicCommand", *server, "--create", "--topic", topic, "--partitions", "3", "--config", "retention.ms=1234")
    described = run_tool(f"{TOOLS}.TopicCommand", *server, "--describe", "--topic", topic)
    assert "PartitionCount: 3" in described
    assert "retention.ms=1234" in described
    run_tool(f"{TOOLS}.TopicCommand", *server, "--delete", "--topic", topic)
    assert topic not in run_tool(f"{TOOLS}.TopicCommand", *server, "--list")


def test_offset_shell_finds_both_ends(broker: Broker, topic: str) -> None:
    produce_values(broker, topic, [b"x"] * 5)
    for time, offset in (("earliest", 0), ("latest", 5), ("max-timestamp", 0)):
        output = run_tool(f"{TOOLS}.GetOffsetShell", "--bootstrap-server", broker.bootstrap_servers, "--topic", topic, "--time", time)
        assert output.strip() == f"{topic}:0:{offset}"


def test_dump_tool_reads_every_file_without_complaint(broker: Broker) -> None:
    topic = create_topic(broker, configs={"segment.bytes": 1 << 20, "index.interval.bytes": 4096})
    noise = Random(1)
    for codec in CODECS:
        with ConfluentClient().writer(broker, codec=codec, idempotent=True) as writer:
            writer.write(topic, [Message(noise.randbytes(500), key=b"k%d" % number) for number in range(1000)])
    folder = broker.partition_directory(topic)
    logs = sorted(folder.glob("*.log"))
    assert len(logs) >= 2
    dumped = run_tool("kafka.tools.DumpLogSegments", "--deep-iteration", "--files", ",".join(str(file) for file in logs))
    assert "isvalid: false" not in dumped
    assert dumped.count("isvalid: true") >= 5
    indexes = sorted(file for kind in ("*.index", "*.timeindex") for file in folder.glob(kind))
    dumped = run_tool("kafka.tools.DumpLogSegments", "--index-sanity-check", "--files", ",".join(str(file) for file in indexes))
    if not IS_KAFKA:
        assert "Found" not in dumped
    snapshots = sorted(folder.glob("*.snapshot"))
    if snapshots:
        assert "producerId" in run_tool("kafka.tools.DumpLogSegments", "--files", ",".join(str(file) for file in snapshots))
