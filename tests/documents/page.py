"""A page of the documentation as its fenced blocks, and what the comments before them say about how they are run.

A comment stands on the line before the fence, so that it is no part of what people read:

    <!-- not run: a drawing -->      not run, for this reason; tests/documents/test_marks.py counts these
    <!-- file: click.avsc -->        the block is written to this file, which other snippets of the page use
    <!-- until: ready: -->           runs until it has written this, and is interrupted then, as with Ctrl-C

Anywhere on the page: `<!-- brokers: live:9092, offline:9092 -->` says under which addresses the page speaks of brokers; each is one
with a registry, metrics and znodes of its own. Without it there is one at 127.0.0.1:9092.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
USUAL_BROKER: Final = "127.0.0.1:9092"
_FENCE: Final = re.compile(r"^(?P<indent> *)```(?P<language>\S*)\n(?P<text>.*?)^(?P=indent)```$", re.MULTILINE | re.DOTALL)
_COMMENT: Final = re.compile(r"<!-- (not run|file|until): (.+?) -->\n *\Z")
_BROKERS: Final = re.compile(r"<!-- brokers: (.+?) -->")


@dataclass(frozen=True)
class Block:
    """One fenced block."""

    page: str
    line: int
    language: str
    text: str
    not_run: str = ""
    file: str = ""
    until: str = ""

    @property
    def place(self) -> str:
        """Where it is, as errors name it."""
        return f"{self.page}:{self.line}"

    @property
    def needs_spark(self) -> bool:
        """Whether Spark has to be there to run it."""
        is_python = self.language == "python" and re.search(r"\bspark\b|SparkSession|DeltaTable", self.text) is not None
        return not self.not_run and (self.language == "sql" or is_python)


@dataclass(frozen=True)
class Page:
    """One document, by its path in the checkout."""

    path: Path

    @property
    def name(self) -> str:
        """`docs/spark.md`."""
        return str(self.path.relative_to(ROOT))

    @cached_property
    def blocks(self) -> tuple[Block, ...]:
        """Its fenced blocks, in order."""
        return tuple(_blocks_of(self.name, self.path.read_text()))

    @cached_property
    def brokers(self) -> tuple[str, ...]:
        """The addresses under which it speaks of brokers."""
        named = _BROKERS.search(self.path.read_text())
        return tuple(named[1].split(", ")) if named else (USUAL_BROKER,)

    @property
    def runs_something(self) -> bool:
        """Whether there is anything to run."""
        return any(not block.not_run for block in self.blocks)


def all_pages() -> list[Page]:
    """README and its neighbours, and docs/ without the decisions, which show no snippets."""
    paths = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").glob("*.md"))]
    return [Page(path) for path in paths]


def _blocks_of(name: str, text: str) -> Iterator[Block]:
    for fence in _FENCE.finditer(text):
        said = _COMMENT.search(text, 0, fence.start())
        comment = {said[1].replace(" ", "_"): said[2]} if said else {}
        indent = len(fence["indent"])
        content = "".join(line[indent:] for line in fence["text"].splitlines(keepends=True))
        yield Block(name, text.count("\n", 0, fence.start()) + 1, fence["language"], content, **comment)
