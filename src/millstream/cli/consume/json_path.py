"""A place in a JSON document: `user.id`, `$.items[0].price`, `["a name"].x`, `items[-1]`. Pure."""

import json
import re
from dataclasses import dataclass
from typing import Any, Final

from millstream.errors import UsageError

MISSING: Final = object()
"""What a document has where it has nothing."""
_STEP: Final = re.compile(r"""\.?(?P<name>[^\s.\[\]"=!<>~]+)|\[(?P<index>-?\d{1,9})\]|\.?\[?(?P<quoted>"(?:\\.|[^"\\])*")\]?""", re.ASCII)


@dataclass(frozen=True)
class JsonPath:
    """Names of fields and places in lists, from the outside in."""

    steps: tuple[str | int, ...]

    def find(self, document: Any) -> Any:
        """What the document has there, or `MISSING`."""
        for step in self.steps:
            document = _field(document, step) if isinstance(step, str) else _item(document, step)
            if document is MISSING:
                break
        return document


def _field(document: Any, name: str) -> Any:
    return document.get(name, MISSING) if isinstance(document, dict) else MISSING


def _item(document: Any, index: int) -> Any:
    return document[index] if isinstance(document, list) and -len(document) <= index < len(document) else MISSING


def parse_path(text: str) -> JsonPath:
    """The path that `text` means; a leading `$` is the document itself."""
    steps: list[str | int] = []
    rest = text.strip().removeprefix("$")
    position = 0
    while position < len(rest):
        match = _STEP.match(rest, position)
        if match is None or (match["name"] and position and rest[position] != "."):
            raise UsageError(f'{text!r} is no path in a JSON document: write it as user.id, items[0].price or ["a name"].x.')
        if match["index"] is not None:
            steps.append(int(match["index"]))
        else:
            steps.append(match["name"] if match["name"] is not None else json.loads(match["quoted"]))
        position = match.end()
    return JsonPath(tuple(steps))
