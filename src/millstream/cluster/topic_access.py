"""What clients may do with topics: the rules, which `Replicas.partition_for` asks for every partition that a request names.

There are no access rules (ACLs) yet, they belong here: everybody may do everything, except with the topics that are the broker's own:

    READ, DESCRIBE         as with any topic
    WRITE                  only tools that call themselves `__admin_client`, as in Kafka
    DELETE                 not allowed, neither of the topic nor of its records
    creation on demand     by the broker, when it needs the topic, and not because a client asks for its metadata

A topic that a mirror fills (`mirror.source`) is read-only until it is promoted: WRITE and DELETE (of records) are refused. MIRROR is what
the mirror itself does, and is refused everywhere else.
"""

from enum import IntEnum
from typing import Final, Protocol

from millstream.coordination.topic_names import INTERNAL_TOPICS
from millstream.errors import InvalidTopic, PolicyViolation, UnknownTopicOrPartition

ADMIN_CLIENT: Final = "__admin_client"


class Operation(IntEnum):
    """What a request wants to do with a topic, with Kafka's numbers."""

    READ = 3
    WRITE = 4
    DELETE = 6
    DESCRIBE = 8
    MIRROR = 9
    """Kafka's CLUSTER_ACTION: what brokers do for each other."""


class Client(Protocol):
    """Who asks, as far as the rules want to know; the broker's `Session` is one."""

    @property
    def client_id(self) -> str | None:
        """What the client calls itself."""


def check_access(client: Client, operation: Operation, topic: str) -> None:
    """Raise what a client is answered that may not do this with the topic."""
    if topic not in INTERNAL_TOPICS:
        return
    if operation is Operation.WRITE and client.client_id != ADMIN_CLIENT:
        raise InvalidTopic(f"{topic} is written by the broker alone")
    if operation is Operation.DELETE:
        raise InvalidTopic(f"{topic} belongs to the broker: neither the topic nor records of it can be deleted")


def check_mirrored(operation: Operation, topic: str, source: str) -> None:
    """Raise if this may not be done with a topic that is a mirror of `source`; an empty source is a topic that is none."""
    if source and operation in (Operation.WRITE, Operation.DELETE):
        raise PolicyViolation(
            f"{topic} is a mirror of {source} and read-only; to write to it, promote it first (millstream mirror promote --topics {topic})"
        )
    if operation is Operation.MIRROR and not source:
        raise PolicyViolation(f"{topic} is not a mirror (it has no mirror.source): its records come from producers")


def check_creation_on_demand(topic: str) -> None:
    """Raise if the topic is not created because a client asks for it."""
    if topic in INTERNAL_TOPICS:
        raise UnknownTopicOrPartition(f"{topic} is made by the broker itself, when it is needed")
