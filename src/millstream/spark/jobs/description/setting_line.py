"""The line of a job file that a sentence about it is about.

Sentences name a setting in one of these ways: `watermark: ...`, `[input] watermark: ...`, `input.watermark: ...`, `[input] has no setting
'watermrk'`, `there is no section [inptu]`. What is not found that way has no line; the sentence says it all the same.
"""

import re
from typing import Final, NamedTuple

_SECTION_MISSING: Final = re.compile(r"there is no section \[(?P<section>[^\]]+)\]")
_UNKNOWN: Final = re.compile(r"(?:\[(?P<section>[^\]]+)\]|a job) has no setting '(?P<name>[^']+)'")
_ABOUT: Final = re.compile(r"(?:\[(?P<section>[^\]]+)\],? ?)?(?P<name>[\w.-]+)?(?:, [\w-]+)*:")
_SECTION: Final = re.compile(r"\[(?P<section>[^\]]+)\] ")
_HEADER: Final = re.compile(r"\s*\[\s*([^\[\]]+?)\s*\]")
_KEY: Final = re.compile(r"""\s*["']?([\w.-]+)["']?\s*=""")


class _Place(NamedTuple):
    section: str
    name: str


def line_of(document: str, sentence: str) -> int | None:
    """The number of the line, from 1 on; that of the section where the setting itself is not there."""
    wanted = _place(sentence)
    if wanted is None:
        return None
    section, header = "", None
    for number, line in enumerate(document.splitlines(), 1):
        if found := _HEADER.match(line):
            section = _plain(found[1])
            header = number if section == wanted.section else header
        elif (found := _KEY.match(line)) and (section, _plain(found[1])) == wanted:
            return number
    return header


def _place(sentence: str) -> _Place | None:
    if found := _SECTION_MISSING.match(sentence):
        # A section, or a table in it that is written like a setting.
        return _Place(_plain(found["section"]), "")
    if found := _UNKNOWN.match(sentence) or _ABOUT.match(sentence):
        section, name = found["section"] or "", found["name"] or ""
        if not section:
            section, _, name = name.rpartition(".")
        return _Place(_plain(section), _plain(name))
    found = _SECTION.match(sentence)
    return None if found is None else _Place(_plain(found["section"]), "")


def _plain(name: str) -> str:
    """A name however it is written: quotes and spaces do not count, and `_` is `-`."""
    return re.sub(r"[\s\"']", "", name).replace("_", "-")
