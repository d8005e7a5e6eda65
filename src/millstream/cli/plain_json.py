"""Values of Python's as JSON knows them, the same in every command: bytes as text or base64, times as ISO dates, decimals as text. Pure."""

import base64
import math
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID


def json_value(content: bytes | None) -> str | dict[str, str] | None:
    """Text as text, other bytes as base64, null as null."""
    if content is None:
        return None
    try:
        return content.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(content).decode()}


def plain_json(value: Any) -> Any:
    """Any value of a row or of an Avro message."""
    match value:
        case bytes():
            return json_value(value)
        case datetime():
            return value.isoformat().replace("+00:00", "Z")
        case date() | time():
            return value.isoformat()
        case timedelta() | Decimal() | UUID():
            return str(value)
        case float() if not math.isfinite(value):
            return str(value)
        case dict():
            return {str(name): plain_json(each) for name, each in value.items()}
        case list() | tuple():
            return [plain_json(each) for each in value]
        case _:
            return value
