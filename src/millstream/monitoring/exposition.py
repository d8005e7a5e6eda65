"""Prometheus' text format (version 0.0.4): families of series with one name, a kind and a sentence of help.

    # HELP kafka_topic_partitions How many partitions a topic has.
    # TYPE kafka_topic_partitions gauge
    kafka_topic_partitions{topic="clicks"} 3

Written by hand: 70 000 series take 30 ms, and a client library twenty times as long. Labels are made once (`labels`) and used for
every family that has the same ones.
"""

from collections.abc import Iterable
from typing import Final

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"

Series = Iterable[tuple[str, int | float]]
"""Labels, as `labels` makes them, and a value."""


def labels(**values: object) -> str:
    """The labels of a series, in the order given."""
    return joined(some(**values))


def some(**values: object) -> str:
    """Some labels of a series, to be joined with others: what many series share is written once."""
    return ",".join([f'{name}="{_escaped(str(value))}"' for name, value in values.items()])


def joined(*parts: str) -> str:
    """The labels of a series, of parts that `some` made."""
    return "{" + ",".join(parts) + "}"


def family(name: str, kind: str, explanation: str, series: Series) -> str:
    """All series of one name; nothing at all if there are none. A label set may begin with a suffix of the name (`_bucket{...}`)."""
    lines = [f"{name}{label} {value:.16g}" if isinstance(value, float) else f"{name}{label} {value}" for label, value in series]
    if not lines:
        return ""
    return f"# HELP {name} {explanation}\n# TYPE {name} {kind}\n" + "\n".join(lines) + "\n"


def _escaped(text: str) -> str:
    if "\\" in text or '"' in text or "\n" in text:
        return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return text
