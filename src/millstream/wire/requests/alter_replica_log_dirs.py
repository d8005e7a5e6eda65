"""AlterReplicaLogDirsRequest (key 34), versions 1 to 2. Written by `codegen.messages`: do not edit."""

from typing import Final, NamedTuple

from millstream.wire.schema import STRUCTURE, Field, Layout


class AlterReplicaLogDirTopic(NamedTuple):
    """A part of it."""

    name: str = ""
    partitions: tuple[int, ...] = ()


ALTER_REPLICA_LOG_DIR_TOPIC: Final = Layout(
    AlterReplicaLogDirTopic,
    (
        Field("name", "string", 1, 2),
        Field("partitions", "int32", 1, 2, default=(), is_array=True),
    ),
)


class AlterReplicaLogDir(NamedTuple):
    """A part of it."""

    path: str = ""
    topics: tuple[AlterReplicaLogDirTopic, ...] = ()


ALTER_REPLICA_LOG_DIR: Final = Layout(
    AlterReplicaLogDir,
    (
        Field("path", "string", 1, 2),
        Field("topics", STRUCTURE, 1, 2, is_array=True, nested=ALTER_REPLICA_LOG_DIR_TOPIC),
    ),
)


class AlterReplicaLogDirsRequest(NamedTuple):
    """The message."""

    dirs: tuple[AlterReplicaLogDir, ...] = ()


LAYOUT: Final = Layout(
    AlterReplicaLogDirsRequest,
    (Field("dirs", STRUCTURE, 1, 2, is_array=True, nested=ALTER_REPLICA_LOG_DIR),),
)
