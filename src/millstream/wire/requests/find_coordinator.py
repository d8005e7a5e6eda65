"""FindCoordinatorRequest (key 10), versions 0 to 6. Written by `codegen.messages`: do not edit."""

from typing import Final, NamedTuple

from millstream.wire.schema import Field, Layout


class FindCoordinatorRequest(NamedTuple):
    """The message."""

    key: str = ""
    key_type: int = 0
    coordinator_keys: tuple[str, ...] = ()


LAYOUT: Final = Layout(
    FindCoordinatorRequest,
    (
        Field("key", "string", 0, 3),
        Field("key_type", "int8", 1, 6, default=0),
        Field("coordinator_keys", "string", 4, 6, default=(), is_array=True),
    ),
)
