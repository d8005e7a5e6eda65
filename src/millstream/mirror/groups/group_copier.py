"""Copies the committed offsets of consumer groups to the target, every few seconds, so that a group can go on there.

Each process does it for the partitions that it copies. A group that has members at the target is left alone: the target refuses a commit
that does not come from one of them. Blocking; the mirror calls it in a thread.
"""

import logging
from collections.abc import Mapping
from typing import Any, Final

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaException
from confluent_kafka import KafkaError as LibrdkafkaError
from confluent_kafka import TopicPartition as CommittedPartition
from confluent_kafka.admin import AdminClient

from millstream.client.security import NO_SECURITY, ClientSecurity
from millstream.mirror.clusters.librdkafka import open_admin, plain_errors
from millstream.mirror.groups.group_offsets import Offsets, groups_to_copy, offsets_to_copy
from millstream.topic_partition import TopicPartition

logger = logging.getLogger(__name__)

_TIMEOUT_S: Final = 10.0
_ASKED_AT_ONCE: Final = 100
_IS_IN_USE: Final = frozenset({LibrdkafkaError.UNKNOWN_MEMBER_ID, LibrdkafkaError.NON_EMPTY_GROUP})


class GroupCopier:
    """Copies offsets from one cluster to the other."""

    def __init__(
        self, source: str, target: str, *, source_security: ClientSecurity = NO_SECURITY, target_security: ClientSecurity = NO_SECURITY
    ) -> None:
        self._source_servers, self._target_servers = source, target
        self._source = open_admin(source, source_security)
        self._target = open_admin(target, target_security)

    def copy(self, ends: Offsets) -> int:
        """Copy what is committed for these partitions, up to their ends; of how many partitions of groups it was."""
        if not ends:
            return 0
        with plain_errors(self._source_servers):
            listed = self._source.list_consumer_groups(request_timeout=_TIMEOUT_S).result()
        names = groups_to_copy(group.group_id for group in listed.valid)
        copied = 0
        for start in range(0, len(names), _ASKED_AT_ONCE):
            some = names[start : start + _ASKED_AT_ONCE]
            source = _committed(self._source, dict.fromkeys(some))
            asked = {name: [place for place in offsets if place in ends] for name, offsets in source.items()}
            asked = {name: places for name, places in asked.items() if places}
            target = _committed(self._target, asked)
            for name in asked:
                copied += self._commit(name, offsets_to_copy(source[name], target.get(name, {}), ends=ends))
        return copied

    def _commit(self, group: str, offsets: Mapping[TopicPartition, int]) -> int:
        if not offsets:
            return 0
        wanted = [CommittedPartition(topic, partition, offset) for (topic, partition), offset in offsets.items()]
        futures = self._target.alter_consumer_group_offsets([ConsumerGroupTopicPartitions(group, wanted)], request_timeout=_TIMEOUT_S)
        try:
            result: Any = futures[group].result()
        except KafkaException as exception:
            error: LibrdkafkaError = exception.args[0]
            if error.code() not in _IS_IN_USE:
                logger.warning("the offsets of the group %s are not copied for now: %s", group, error.str())
            return 0
        return sum(place.error is None for place in result.topic_partitions)


def _committed(client: AdminClient, groups: Mapping[str, list[TopicPartition] | None]) -> dict[str, dict[TopicPartition, int]]:
    """What is committed, for all groups at once; a group that cannot be asked for now is left out."""
    futures: dict[str, Any] = {}
    for group, places in groups.items():
        wanted = None if places is None else [CommittedPartition(*place) for place in places]
        futures |= client.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group, wanted)], request_timeout=_TIMEOUT_S)
    found: dict[str, dict[TopicPartition, int]] = {}
    for group, future in futures.items():
        try:
            places = future.result().topic_partitions
        except KafkaException as exception:
            logger.debug("the offsets of the group %s: %s", group, exception.args[0].str())
            continue
        found[group] = {TopicPartition(each.topic, each.partition): each.offset for each in places if each.error is None}
    return found
