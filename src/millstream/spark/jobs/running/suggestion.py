"""The name that was probably meant, for messages about one that does not exist."""

import difflib
from collections.abc import Iterable


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A sentence with the nearest known name, or nothing; it begins with a space."""
    by_lower = {one.lower(): one for one in known}
    close = difflib.get_close_matches(name.lower(), list(by_lower), n=1)
    return f" Did you mean {by_lower[close[0]]!r}?" if close else ""
