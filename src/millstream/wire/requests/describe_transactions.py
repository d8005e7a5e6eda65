"""DescribeTransactionsRequest (key 65), versions 0 to 0. Written by `codegen.messages`: do not edit."""

from typing import Final, NamedTuple

from millstream.wire.schema import Field, Layout


class DescribeTransactionsRequest(NamedTuple):
    """The message."""

    transactional_ids: tuple[str, ...] = ()


LAYOUT: Final = Layout(
    DescribeTransactionsRequest,
    (Field("transactional_ids", "string", 0, 0, default=(), is_array=True),),
)
