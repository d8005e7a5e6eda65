"""DeleteShareGroupOffsetsRequest (key 92), versions 0 to 0. Written by `codegen.messages`: do not edit."""

from typing import Final, NamedTuple

from millstream.wire.schema import STRUCTURE, Field, Layout


class DeleteShareGroupOffsetsRequestTopic(NamedTuple):
    """A part of it."""

    topic_name: str = ""


DELETE_SHARE_GROUP_OFFSETS_REQUEST_TOPIC: Final = Layout(
    DeleteShareGroupOffsetsRequestTopic,
    (Field("topic_name", "string", 0, 0),),
)


class DeleteShareGroupOffsetsRequest(NamedTuple):
    """The message."""

    group_id: str = ""
    topics: tuple[DeleteShareGroupOffsetsRequestTopic, ...] = ()


LAYOUT: Final = Layout(
    DeleteShareGroupOffsetsRequest,
    (
        Field("group_id", "string", 0, 0),
        Field("topics", STRUCTURE, 0, 0, is_array=True, nested=DELETE_SHARE_GROUP_OFFSETS_REQUEST_TOPIC),
    ),
)
