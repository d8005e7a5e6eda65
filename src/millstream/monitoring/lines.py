"""The lines of large families: which series there are changes seldom, their values always.

With ten groups in each of 1 000 partitions a page has 38 000 lines. Their beginnings, `name{labels} `, are kept from page to page as long
as the series are the same, which leaves a third of the work.
"""

from collections.abc import Callable, Iterable
from itertools import chain, repeat
from typing import Any, TypeVar

from millstream.monitoring.exposition import head

Key = TypeVar("Key")


class Lines:
    """Labels and beginnings of lines of the last page."""

    def __init__(self) -> None:
        self._labels: dict[str, tuple[list[Any], list[str]]] = {}
        self._beginnings: dict[str, tuple[list[str], list[str]]] = {}

    def labels(self, what: str, keys: list[Key], write: Callable[[Key], str]) -> list[str]:
        """The labels of series by what tells these apart; the same list as long as the keys of `what` are the same."""
        known = self._labels.get(what)
        if known is None or known[0] != keys:
            known = self._labels[what] = keys, [write(key) for key in keys]
        return known[1]

    def family(self, name: str, kind: str, explanation: str, labels: list[str], values: Iterable[str]) -> str:
        """All series of one name, as `exposition.family` writes them; labels that `labels` gave, and values as text in their order."""
        if not labels:
            return ""
        known = self._beginnings.get(name)
        if known is None or known[0] is not labels:
            known = self._beginnings[name] = labels, [f"{name}{label} " for label in labels]
        lines = zip(known[1], values, repeat("\n"), strict=False)
        return head(name, kind, explanation) + "".join(chain.from_iterable(lines))
