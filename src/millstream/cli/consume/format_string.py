r"""How `consume -f` writes a record: text with places for its parts. Pure.

    %t topic   %p partition   %o offset   %k key   %v value   %h headers (name=value,...)   %T time in ms   %d time as a date
    %K size of the key   %V size of the value (-1 for null)   %% a percent sign
    \n \t \r \0 \\ \xHH

A null key or value is empty. Bytes are written as they are.
"""

import re
from collections.abc import Callable
from typing import Final

from millstream.cli.output import format_timestamp
from millstream.cli.record_output import ShownRecord
from millstream.errors import UsageError

Part = Callable[[ShownRecord], bytes]

_TOKEN: Final = re.compile(r"%(?P<part>.?)|\\(?P<escape>x[0-9a-fA-F]{2}|.?)|(?P<text>[^%\\]+)", re.DOTALL)
_ESCAPES: Final = {"n": b"\n", "t": b"\t", "r": b"\r", "0": b"\0", "\\": b"\\"}
_PARTS: Final[dict[str, Part]] = {
    "t": lambda record: record.topic.encode(),
    "p": lambda record: b"%d" % record.partition,
    "o": lambda record: b"%d" % record.offset,
    "k": lambda record: record.key or b"",
    "v": lambda record: record.value or b"",
    "h": lambda record: b",".join(name.encode() + b"=" + (value or b"") for name, value in record.headers),
    "T": lambda record: b"%d" % record.timestamp,
    "d": lambda record: format_timestamp(record.timestamp).encode(),
    "K": lambda record: b"%d" % _size(record.key),
    "V": lambda record: b"%d" % _size(record.value),
}


def parse_format(text: str) -> Part:
    """What writes a record in this format."""
    parts = [_part(match, text) for match in _TOKEN.finditer(text)]
    return lambda record: b"".join([part if isinstance(part, bytes) else part(record) for part in parts])


def _part(match: "re.Match[str]", text: str) -> bytes | Part:
    if match["text"] is not None:
        return match["text"].encode()
    if match["escape"] is not None:
        escape = match["escape"]
        if len(escape) == 3:
            return bytes.fromhex(escape[1:])
        if escape in _ESCAPES:
            return _ESCAPES[escape]
        raise UsageError(rf"-f {text!r}: \{escape} is no escape; there are \n \t \r \0 \\ \xHH.")
    name = match["part"]
    if name == "%":
        return b"%"
    if name in _PARTS:
        return _PARTS[name]
    raise UsageError(f"-f {text!r}: %{name} is nothing; there are " + " ".join(f"%{known}" for known in _PARTS) + " and %%.")


def _size(content: bytes | None) -> int:
    return -1 if content is None else len(content)
