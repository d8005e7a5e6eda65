"""MetadataRequest (key 3), versions 0 to 13. Written by `codegen.messages`: do not edit."""

from typing import Final, NamedTuple
from uuid import UUID

from millstream.wire.schema import STRUCTURE, Field, Layout


class MetadataRequestTopic(NamedTuple):
    """A part of it."""

    topic_id: UUID | None = None
    name: str | None = ""


METADATA_REQUEST_TOPIC: Final = Layout(
    MetadataRequestTopic,
    (
        Field("topic_id", "uuid", 10, 13, nullable_from=10),
        Field("name", "string", 0, 13, nullable_from=10),
    ),
)


class MetadataRequest(NamedTuple):
    """The message."""

    topics: tuple[MetadataRequestTopic, ...] | None = ()
    allow_auto_topic_creation: bool = True
    include_cluster_authorized_operations: bool = False
    include_topic_authorized_operations: bool = False


LAYOUT: Final = Layout(
    MetadataRequest,
    (
        Field("topics", STRUCTURE, 0, 13, is_array=True, nullable_from=1, nested=METADATA_REQUEST_TOPIC),
        Field("allow_auto_topic_creation", "bool", 4, 13, default=True),
        Field("include_cluster_authorized_operations", "bool", 8, 10),
        Field("include_topic_authorized_operations", "bool", 8, 13),
    ),
)
