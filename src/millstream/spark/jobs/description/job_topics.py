"""What brokers and registry say about the topics of a job, asked before Spark is started.

Topics that are read have to exist; the one for results is created, compacted, if it is missing. A topic that forgets messages before their
windows are over is a warning: a job that stands still for a while then loses some of them.
"""

import json
from collections.abc import Mapping
from typing import Any, Final, Self

from millstream.avro.parser import SchemaError, parse_schema
from millstream.avro.schema import Record
from millstream.client.admin.topic_creation import find_or_create
from millstream.client.cluster import Cluster
from millstream.client.codecs.metadata import TopicMetadata
from millstream.client.codecs.request import MessageRequest
from millstream.client.security.client_security import ClientSecurity
from millstream.errors import UnknownTopicOrPartition, UsageError
from millstream.offset import EARLIEST, LATEST
from millstream.registry.client import RegistryClient
from millstream.registry.errors import RegistryError
from millstream.spark.jobs.description.durations import duration_text
from millstream.spark.jobs.description.job_settings import Job
from millstream.spark.jobs.description.join_job import JoinJob
from millstream.spark.jobs.description.topic_input import DEAD_LETTER_OPTIONS
from millstream.spark.jobs.running.suggestion import did_you_mean
from millstream.spark.positions import format_offsets
from millstream.topic_partition import TopicPartition
from millstream.wire.api import ApiKey

NEW_TOPIC: Final = {"cleanup.policy": "compact"}
"""Options of a topic for results: each has a key of its own, and one that was written twice is kept once."""
_TOPIC: Final = 2
_TIMEOUT_S: Final = 10.0


class JobTopics:
    """The topics of a job at its cluster."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._cluster = Cluster(job.brokers, client_id="millstream-pipeline", timeout_s=_TIMEOUT_S, security=ClientSecurity.of(job.kafka))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._cluster.close()

    def check(self) -> list[str]:
        """Look at what is read; returns warnings."""
        warnings = [warning for section in self._job.inputs for warning in self._check_input(section)]
        if isinstance(self._job, JoinJob) and self._job.table is not None and self._job.table.topic:
            self._find("table", self._job.table.topic)
        self._job.check_columns(
            {section: self._avro_fields(one.topic) for section, one in self._job.inputs.items() if one.format == "avro"}
        )
        return warnings

    def create(self) -> None:
        """Create the topics that are written, where they are missing."""
        for one in self._job.inputs.values():
            if one.dead_letter_topic is not None:
                find_or_create(self._cluster, one.dead_letter_topic, partitions=1, configs=DEAD_LETTER_OPTIONS)
        if self._job.output.topic:
            find_or_create(self._cluster, self._job.output.topic, partitions=self._job.output.partitions, configs=NEW_TOPIC)

    def topic_ids(self) -> dict[str, str]:
        """The ids of the topics that are read: one that is created again has another."""
        found = {one.topic: self._existing(section).topic_id for section, one in self._job.inputs.items()}
        return {topic: str(topic_id) for topic, topic_id in found.items() if topic_id is not None}

    def starts_at(self, offset: int) -> dict[str, str]:
        """Where each input begins that is to be read from this offset on, in each partition; below zero it is counted from the end."""
        found = {}
        for section, one in self._job.inputs.items():
            places = [TopicPartition(one.topic, number) for number in self._existing(section).partitions]
            earliest, latest = (self._cluster.offsets(dict.fromkeys(places, edge)) for edge in (EARLIEST, LATEST))
            offsets = {
                place: min(max(offset if offset >= 0 else latest[place].offset + offset, earliest[place].offset), latest[place].offset)
                for place in places
            }
            found[section] = json.dumps(format_offsets(offsets))
        return found

    def _existing(self, section: str) -> TopicMetadata:
        return self._find(section, self._job.inputs[section].topic)

    def _find(self, section: str, topic: str) -> TopicMetadata:
        try:
            return self._cluster.topic(topic)
        except UnknownTopicOrPartition:
            meant = did_you_mean(topic, (name for name, known in self._cluster.refresh().topics.items() if not known.error_code))
            raise UsageError(
                f"[{section}] topic: there is no topic {topic!r} at {self._job.brokers}.{meant} To create it: "
                f"`millstream topic create {topic}`"
            ) from None

    def _check_input(self, section: str) -> list[str]:
        topic = self._existing(section).name
        return retention_warnings(topic, self._options_of(topic), span_ms=self._job.span_ms)

    def _options_of(self, topic: str) -> dict[str, str]:
        resource = {"resource_type": _TOPIC, "resource_name": topic, "configuration_keys": ["retention.ms", "cleanup.policy"]}
        request: MessageRequest[Any] = MessageRequest(
            ApiKey.DESCRIBE_CONFIGS, {"resources": [resource], "include_synonyms": False, "include_documentation": False}
        )
        [result] = self._cluster.call(request).results
        # Who may not ask is not warned.
        return {} if result.error_code else {config.name: config.value or "" for config in result.configs}

    def _avro_fields(self, topic: str) -> list[str] | None:
        """The fields of the latest schema of the topic's values."""
        try:
            with RegistryClient(self._job.registry) as registry:
                latest = registry.latest(f"{topic}-value")
                references = [reference.schema for reference in registry.resolved_references(latest)]
        except RegistryError as error:
            raise UsageError(f"registry: the schema of {topic} was not found there: {error}") from None
        try:
            schema = parse_schema(latest.schema, references=references).root
        except SchemaError as error:
            raise UsageError(f"the schema of {topic} in the registry cannot be read: {error}") from None
        return [field.name for field in schema.fields] if isinstance(schema, Record) else ["value"]


def retention_warnings(topic: str, options: Mapping[str, str], *, span_ms: int) -> list[str]:
    """What to say if the topic may drop messages while their windows are open."""
    retention = options.get("retention.ms", "-1")
    if "delete" not in options.get("cleanup.policy", "delete") or int(retention) < 0 or int(retention) >= span_ms:
        return []
    warning = (
        f"{topic} keeps messages for {duration_text(int(retention))}, and a window with its watermark takes {duration_text(span_ms)}: "
        "a job that stands still for long loses messages, and a replay cannot see whole windows. Raise retention.ms of the topic"
    )
    return [warning]
