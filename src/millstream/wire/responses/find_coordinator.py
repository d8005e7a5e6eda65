"""FindCoordinatorResponse (key 10), versions 0 to 6. Written by `codegen.messages`: do not edit."""

from typing import Final, NamedTuple

from millstream.wire.schema import STRUCTURE, Field, Layout


class Coordinator(NamedTuple):
    """A part of it."""

    key: str = ""
    node_id: int = 0
    host: str = ""
    port: int = 0
    error_code: int = 0
    error_message: str | None = ""


COORDINATOR: Final = Layout(
    Coordinator,
    (
        Field("key", "string", 4, 6),
        Field("node_id", "int32", 4, 6),
        Field("host", "string", 4, 6),
        Field("port", "int32", 4, 6),
        Field("error_code", "error_code", 4, 6, default=0),
        Field("error_message", "string", 4, 6, nullable_from=4),
    ),
)


class FindCoordinatorResponse(NamedTuple):
    """The message."""

    throttle_time_ms: int = 0
    coordinators: tuple[Coordinator, ...] = ()
    error_code: int = 0
    error_message: str | None = ""
    node_id: int = 0
    host: str = ""
    port: int = 0


LAYOUT: Final = Layout(
    FindCoordinatorResponse,
    (
        Field("throttle_time_ms", "timedelta_i32", 1, 6, default=0),
        Field("coordinators", STRUCTURE, 4, 6, is_array=True, nested=COORDINATOR),
        Field("error_code", "error_code", 0, 3, default=0),
        Field("error_message", "string", 1, 3, nullable_from=1),
        Field("node_id", "int32", 0, 3),
        Field("host", "string", 0, 3),
        Field("port", "int32", 0, 3),
    ),
)
