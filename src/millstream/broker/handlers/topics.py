"""CreateTopics (19), DeleteTopics (20), CreatePartitions (37): the topics themselves.

CreateTopics 2-7. 4: -1 for the broker's defaults (KIP-464). 5: configs and numbers in the answer (KIP-525). 7: topic id in the answer.
DeleteTopics 1-6. 5: error message. 6: by id or by name (KIP-516). CreatePartitions 0-3.
Every topic of a request succeeds or fails by itself; `validate_only` does all but the writing. All of it happens on the controller, any
broker may be asked. An answer means: the controller and the broker that was asked have taken it up.
"""

import asyncio
from collections import Counter
from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING
from uuid import UUID

from millstream.broker.cluster.live_settings import LiveSettings
from millstream.broker.cluster.topic_creation import TopicCreation
from millstream.broker.failures import as_kafka_error, error_fields
from millstream.broker.network.api import Fields, Forwarding, Later, Request, api
from millstream.broker.network.session import Session
from millstream.cluster.controller.controller import Controller
from millstream.cluster.topic_access import Operation, check_access
from millstream.coordination.cluster_view import TopicState
from millstream.errors import InvalidConfig, InvalidRequest, TopicDeletionDisabled, UnknownTopicId, UnknownTopicOrPartition
from millstream.options.description import describe_topic
from millstream.wire.api import ApiKey

if TYPE_CHECKING:
    from millstream.wire.requests.create_partitions import CreatePartitionsRequest
    from millstream.wire.requests.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
    from millstream.wire.requests.delete_topics import DeleteTopicsRequest


class TopicsFamily:
    """Turns requests into decisions of the controller."""

    def __init__(self, controller: Controller, creation: TopicCreation, settings: LiveSettings) -> None:
        self._controller = controller
        self._creation = creation
        self._settings = settings

    @api(ApiKey.CREATE_TOPICS, 2, 7, forwarding=Forwarding.WHOLE)
    def create_topics(self, request: Request) -> Later:
        """Create each topic."""
        return self._create_topics(request.decode())

    async def _create_topics(self, message: "CreateTopicsRequest") -> Fields:
        repeated = {name for name, count in Counter(topic.name for topic in message.topics).items() if count > 1}
        timeout_ms = message.timeout_ms
        unique = {topic.name: topic for topic in message.topics}.values()
        in_all = sum(self._creation.count(partitions=topic.num_partitions, assigned=len(topic.assignments)) for topic in unique)
        answers = [
            self._create(topic, in_all, is_repeated=topic.name in repeated, validate_only=message.validate_only, timeout_ms=timeout_ms)
            for topic in unique
        ]
        return {"topics": await asyncio.gather(*answers)}

    async def _create(
        self, asked: "CreatableTopic", in_all: int, *, is_repeated: bool, validate_only: bool, timeout_ms: int
    ) -> dict[str, object]:
        try:
            self._creation.check_request(in_all)
            if is_repeated:
                raise InvalidRequest(f"topic {asked.name!r} is named twice in the request")
            self._creation.check_new(asked.name)
            await self._controller.wait_for_brokers()
            topic = self._creation.plan(
                asked.name,
                partitions=asked.num_partitions,
                replication_factor=asked.replication_factor,
                configs=_given_configs(asked.configs),
                assignment=[(one.partition_index, one.broker_ids) for one in asked.assignments],
            )
            if not validate_only:
                await self._creation.create(topic, timeout_ms=timeout_ms)
        except Exception as error:
            return {"name": asked.name, "topic_id": None, "configs": [], **error_fields(as_kafka_error(error))}
        return {
            "name": topic.name,
            "topic_id": topic.topic_id,
            **error_fields(None),
            "num_partitions": len(topic.partitions),
            "replication_factor": len(topic.partitions[0].replicas),
            "configs": self._describe_configs(topic),
        }

    def _describe_configs(self, topic: TopicState) -> list[dict[str, object]]:
        return [
            {
                "name": row.name,
                "value": row.value,
                "read_only": row.is_read_only,
                "config_source": row.source,
                "is_sensitive": row.is_sensitive,
            }
            for row in describe_topic(topic.configs, self._settings.current)
        ]

    @api(ApiKey.DELETE_TOPICS, 1, 6, forwarding=Forwarding.WHOLE)
    def delete_topics(self, request: Request) -> Later:
        """Delete each topic, named or by id."""
        return self._delete_topics(request.decode(), request.session)

    async def _delete_topics(self, message: "DeleteTopicsRequest", client: Session) -> Fields:
        timeout_ms = message.timeout_ms
        # Version 6 (KIP-516) asks with `topics`, older ones with `topic_names`.
        asked: list[tuple[str | None, UUID | None]] = [(name, None) for name in message.topic_names]
        asked += ((topic.name, topic.topic_id) for topic in message.topics)
        counts = Counter(asked)
        topics = self._controller.view.topics
        once = [name for (name, topic_id), count in counts.items() if name is not None and topic_id is None and count == 1]
        # Given by name and by id as well: one answer, under the name, and nothing is deleted.
        named_too = {topics[name].topic_id for name in once if name in topics} & {topic_id for name, topic_id in counts if name is None}
        answers = [
            self._delete(name, topic_id, client=client, count=count, named_too=named_too, timeout_ms=timeout_ms)
            for (name, topic_id), count in counts.items()
            if name is not None or count > 1 or topic_id not in named_too
        ]
        return {"responses": await asyncio.gather(*answers)}

    async def _delete(
        self,
        name: str | None,
        topic_id: UUID | None,
        *,
        client: Session,
        count: int,
        named_too: Collection[UUID | None],
        timeout_ms: int,
    ) -> dict[str, object]:
        answer: dict[str, object] = {"name": name, "topic_id": topic_id}
        try:
            if count > 1:
                raise InvalidRequest("the topic is named twice in the request")
            if (name is None) == (topic_id is None):
                raise InvalidRequest("give either a topic's name or its id")
            topic = self._find(name, topic_id)
            answer = {"name": topic.name, "topic_id": topic.topic_id}
            if topic.topic_id in named_too:
                raise InvalidRequest(f"topic {topic.name!r} is given by name and by id in the same request")
            if not self._settings.current.boolean("delete.topic.enable"):
                raise TopicDeletionDisabled("topics cannot be deleted here: delete.topic.enable is false")
            check_access(client, Operation.DELETE, topic.name)
            await self._controller.delete_topic(topic, timeout_ms=timeout_ms)
        except Exception as error:
            return answer | error_fields(as_kafka_error(error))
        return answer | error_fields(None)

    def _find(self, name: str | None, topic_id: UUID | None) -> TopicState:
        view = self._controller.view
        if name is not None:
            topic = view.topics.get(name)
            if topic is None:
                raise UnknownTopicOrPartition(f"topic {name!r} does not exist")
            return topic
        by_id = view.topics_by_id.get(topic_id) if topic_id is not None else None
        if by_id is None:
            raise UnknownTopicId(f"no topic has the id {topic_id}")
        return by_id

    @api(ApiKey.CREATE_PARTITIONS, 0, 3, forwarding=Forwarding.WHOLE)
    def create_partitions(self, request: Request) -> Later:
        """Give topics more partitions."""
        return self._create_partitions(request.decode())

    async def _create_partitions(self, message: "CreatePartitionsRequest") -> Fields:
        repeated = {name for name, count in Counter(topic.name for topic in message.topics).items() if count > 1}
        results = []
        for asked in {topic.name: topic for topic in message.topics}.values():
            try:
                if asked.name in repeated:
                    raise InvalidRequest(f"topic {asked.name!r} is named twice in the request")
                await self._controller.wait_for_brokers()
                assignments = None if asked.assignments is None else [one.broker_ids for one in asked.assignments]
                topic = self._controller.plan_partitions(asked.name, count=asked.count, assignments=assignments)
                self._creation.check_partition_count(asked.count - len(self._controller.view.topics[asked.name].partitions))
                if not message.validate_only:
                    await self._controller.create_partitions(topic, timeout_ms=message.timeout_ms)
                results.append({"name": asked.name, **error_fields(None)})
            except Exception as error:
                results.append({"name": asked.name, **error_fields(as_kafka_error(error))})
        return {"results": results}


def _given_configs(configs: "Iterable[CreatableTopicConfig]") -> dict[str, str]:
    given = {}
    for config in configs:
        if config.value is None:
            raise InvalidConfig(f"option {config.name} has no value")
        given[config.name] = config.value  # of an option that is given twice the last value counts, as in Kafka
    return given
