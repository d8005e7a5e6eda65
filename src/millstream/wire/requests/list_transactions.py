"""ListTransactionsRequest (key 66), versions 0 to 2. Written by `codegen.messages`: do not edit."""

from typing import Final, NamedTuple

from millstream.wire.schema import Field, Layout


class ListTransactionsRequest(NamedTuple):
    """The message."""

    state_filters: tuple[str, ...] = ()
    producer_id_filters: tuple[int, ...] = ()
    duration_filter: int = -1
    transactional_id_pattern: str | None = None


LAYOUT: Final = Layout(
    ListTransactionsRequest,
    (
        Field("state_filters", "string", 0, 2, default=(), is_array=True),
        Field("producer_id_filters", "int64", 0, 2, default=(), is_array=True),
        Field("duration_filter", "int64", 1, 2, default=-1),
        Field("transactional_id_pattern", "string", 2, 2, default=None, nullable_from=2),
    ),
)
