"""What a message is read into: named tuples of plain values, with Kafka's names.

Numbers, error codes, durations and points in time (milliseconds) are ints, arrays are tuples, an id of zeros is None. A field that the
version does not have is missing. A named tuple is made in a fraction of the time that one of kio's frozen dataclasses takes, and plain
values are what handlers want.
"""

from collections import namedtuple
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any, Final

from millstream.wire.schema import Field, Schema

_MILLISECOND: Final = timedelta(milliseconds=1)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
NO_TIME: Final = -1
"""How Kafka writes a point in time that is not known."""


@cache
def plain_class(schema: Schema) -> Callable[..., Any]:
    """The class of the messages or structures of a schema."""
    return namedtuple(schema.entity.__name__, [field.kafka_name for field in schema.fields])  # noqa: PYI024  # its fields come from kio


def plain_message(schema: Schema, entity: Any) -> Any:
    """The plain form of one of kio's objects."""
    return plain_class(schema)(*(plain_value(field, getattr(entity, field.name)) for field in schema.fields))


def plain_value(field: Field, value: Any) -> Any:
    """The plain form of what one of kio's objects has in a field."""
    if field.is_array and value is not None:
        return tuple(_plain_element(field, element) for element in value)
    return _plain_element(field, value)


def _plain_element(field: Field, value: Any) -> Any:
    match value:
        case None:
            return NO_TIME if field.kind == "datetime_i64" else None
        case timedelta():
            return value // _MILLISECOND
        case datetime():
            return (value - _EPOCH) // _MILLISECOND
        case _ if field.nested is not None:
            return plain_message(field.nested, value)
        case _:
            return int(value) if field.kind == "error_code" else value
