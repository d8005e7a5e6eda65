"""Values of Python in the form that Arrow takes them in."""

from typing import Any

import pyarrow as pa


def as_arrow(value: Any, arrow: pa.DataType) -> Any:
    """Maps as pairs, at any depth."""
    if value is None:
        return None
    if pa.types.is_map(arrow):
        return [(key, as_arrow(item, arrow.item_type)) for key, item in value.items()]
    if pa.types.is_list(arrow):
        return [as_arrow(item, arrow.value_type) for item in value]
    if pa.types.is_struct(arrow):
        return {field.name: as_arrow(value[field.name], field.type) for field in arrow}
    return value
