"""How the command line reaches a cluster: clients of confluent-kafka that have been answered once, and errors as sentences.

Any Kafka will do: nothing here knows Millstream. Opening a client asks for the metadata at once, so a wrong address is known within seconds
and in one sentence; librdkafka's own log, which repeats such a thing forever, is off (`-X log_level=7 -X debug=broker` brings it back).
Whoever opens a client must keep it as long as a future or a delivery of it is awaited.
"""

import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from millstream.address import parse_bootstrap_servers
from millstream.cli.properties import parse_assignment
from millstream.client.connect_reason import ConnectReason
from millstream.errors import CommandFailed, UsageError

if TYPE_CHECKING:
    from confluent_kafka import Consumer, KafkaError, Producer
    from confluent_kafka.admin import AdminClient
    from confluent_kafka.admin._metadata import ClusterMetadata, TopicMetadata

    from millstream.cli.partition_reader import PartitionReader

ANSWER_SLICES_SECONDS = (0.5, 1.5, 3.0)
"""How long to wait for the first answer; between the slices we look whether every broker has already refused."""
TOPIC_APPEARS_SECONDS = 3.0
APPEARANCE_POLL_SECONDS = 0.05
REQUEST_SECONDS = 30.0
TOO_LARGE = "MSG_SIZE_TOO_LARGE"
LARGEST_MESSAGE = 1_000_000
"""What librdkafka sends where `message.max.bytes` does not say otherwise."""


class _Client(Protocol):
    def list_topics(self, topic: str | None = ..., timeout: float = ...) -> "ClusterMetadata": ...

    def poll(self, timeout: float) -> object: ...


@dataclass(frozen=True)
class Cluster:
    """The cluster that a command talks to."""

    brokers: str
    options: Mapping[str, str]

    @classmethod
    def of(cls, brokers: str, client_options: list[str] | None) -> "Cluster":
        """The cluster that the flags `-b` and `-X` describe; librdkafka would ask any address, whatever is written there."""
        parse_bootstrap_servers(brokers)
        return cls(brokers, dict(parse_assignment(text, "-X") for text in client_options or []))

    def admin(self) -> "AdminClient":
        """A client for topics and configs."""
        from confluent_kafka.admin import AdminClient

        reason = ConnectReason()
        with self.plain_errors():
            client = AdminClient(self._settings({}, reason))
        self._await_answer(client, reason)
        return client

    def producer(self, settings: Mapping[str, str]) -> "Producer":
        """A producer; keys are hashed as Java's clients do it, so that both put a key into the same partition."""
        from confluent_kafka import Producer

        reason = ConnectReason()
        with self.plain_errors():
            client = Producer(self._settings({"partitioner": "murmur2_random", **settings}, reason))
        self._await_answer(client, reason)
        return client

    def consumer(self, settings: Mapping[str, str]) -> "Consumer":
        """A consumer for `assign()`: librdkafka wants the name of a group, but none is joined and nothing is committed."""
        from confluent_kafka import Consumer

        reason = ConnectReason()
        alone = {"group.id": "millstream-command-line", "enable.auto.commit": "false", "enable.auto.offset.store": "false"}
        with self.plain_errors():
            client = Consumer(self._settings({**alone, **settings}, reason))
        # A consumer's poll() would fetch messages; the list of topics makes librdkafka call the error callback as well.
        self._await_answer(client, reason)
        return client

    def reader(self) -> "PartitionReader":
        """Our own client, for what confluent-kafka does not answer."""
        from millstream.cli.partition_reader import PartitionReader

        return PartitionReader(self.brokers, self.options)

    def existing_topic(self, client: _Client, name: str) -> "TopicMetadata":
        """What the cluster says about a topic that must exist; asked so that it is not created by the question."""
        with self.plain_errors():
            topics = client.list_topics(timeout=REQUEST_SECONDS).topics
        metadata = topics.get(name)
        if metadata is None or metadata.error is not None:
            raise CommandFailed(self._missing_topic(name, metadata, topics))
        return metadata

    def topic_to_write(self, client: "Producer", name: str) -> "TopicMetadata":
        """What the cluster says about a topic that is created by asking, if the brokers allow that; then it takes a moment to appear."""
        deadline = time.monotonic() + TOPIC_APPEARS_SECONDS
        while True:
            with self.plain_errors():
                metadata: TopicMetadata = client.list_topics(name, timeout=REQUEST_SECONDS).topics[name]
            if metadata.error is None and metadata.partitions:
                return metadata
            is_appearing = metadata.error is None or metadata.error.name() in ("UNKNOWN_TOPIC_OR_PART", "LEADER_NOT_AVAILABLE")
            if not is_appearing or time.monotonic() > deadline:
                raise CommandFailed(self._missing_topic(name, metadata))
            time.sleep(APPEARANCE_POLL_SECONDS)

    def _missing_topic(self, name: str, metadata: "TopicMetadata | None", topics: Iterable[str] = ()) -> str:
        error = None if metadata is None else metadata.error
        if error is None or error.name() == "UNKNOWN_TOPIC_OR_PART":
            if meant := close_name(name, topics):
                return f"There is no topic {name!r} at {self.brokers}; did you mean {meant}?"
            return f"There is no topic {name!r} at {self.brokers}: create it with `millstream topic create {name}`."
        return f"The topic {name!r} at {self.brokers} cannot be used: {plain(error)}."

    def refusal(self, topic: str, error: "KafkaError") -> str:
        """Why a record was not taken; with the limit, if it was too large for its topic."""
        if error.name() == "POLICY_VIOLATION":
            # A broker says more, but librdkafka does not hand it on.
            return f"{plain(error)}. The copy of a mirror is read-only until `millstream mirror promote` has made it a topic of its own"
        if error.name() != TOO_LARGE:
            return plain(error)
        return f"it is larger than the topic takes, whose max.message.bytes is {self._topic_option(topic, 'max.message.bytes')}"

    def _topic_option(self, topic: str, option: str) -> str:
        from confluent_kafka.admin import ConfigResource, ResourceType  # type: ignore[attr-defined] # their types do not list re-exports

        resource = ConfigResource(ResourceType.TOPIC, topic)
        admin = self.admin()
        with self.plain_errors("asking for the options of the topic"):
            return str(admin.describe_configs([resource], request_timeout=REQUEST_SECONDS)[resource].result()[option].value)

    @contextmanager
    def plain_errors(self, doing: str = "the request") -> Iterator[None]:
        """Turns an exception of the client into a sentence that says what could not be done where."""
        from confluent_kafka import KafkaException

        try:
            yield
        except KafkaException as exception:
            error: KafkaError = exception.args[0]
            if error.name() in ("_INVALID_ARG", "_UNKNOWN_PROTOCOL"):
                raise UsageError(f"The client does not take these options: {error.str()}.") from exception
            if error.name() == TOO_LARGE:
                limit = self.options.get("message.max.bytes", LARGEST_MESSAGE)
                advice = "raise it with -X message.max.bytes=N, and max.message.bytes of the topic with it"
                raise CommandFailed(f"A record is larger than the client sends: its message.max.bytes is {limit}; {advice}.") from exception
            raise CommandFailed(f"At {self.brokers} {doing} failed: {plain(error)}.") from exception

    def _settings(self, settings: Mapping[str, str], reason: ConnectReason) -> dict[str, Any]:
        quiet = {"bootstrap.servers": self.brokers, "client.id": "millstream", "log_level": "0"}
        return {**quiet, **settings, **self.options, "error_cb": reason.note}

    def _await_answer(self, client: _Client, reason: ConnectReason) -> None:
        from confluent_kafka import KafkaException

        for seconds in ANSWER_SLICES_SECONDS:
            try:
                client.list_topics(timeout=seconds)
                return
            except KafkaException:
                client.poll(0)
                if reason.all_brokers_down:
                    break
        advice = "Start one with `millstream serve`, or name another with --brokers HOST:PORT."
        raise CommandFailed(f"No broker answers at {self.brokers} ({reason.text or 'no answer'}). {advice}")


def close_name(name: str, names: Iterable[str]) -> str | None:
    """The one of these names that was probably meant."""
    from difflib import get_close_matches

    return next(iter(get_close_matches(name, [other for other in names if other != name], n=1, cutoff=0.75)), None)


def plain(error: "KafkaError") -> str:
    """The error without librdkafka's prefix and without a full stop."""
    return error.str().removeprefix("Broker: ").removeprefix("Local: ").rstrip(".")
