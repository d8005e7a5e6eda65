"""Arguments that are text: a shell hands over any bytes, and of those that are no UTF-8 Python makes half characters."""

from collections.abc import Iterable

from millstream.errors import UsageError


def check_text(arguments: Iterable[str]) -> None:
    """Refuse names that no cluster can have; librdkafka does not survive all of them."""
    for word in arguments:
        if not word.isascii() and any("\udc80" <= character <= "\udcff" for character in word):
            raise UsageError(f"{word!r} is no UTF-8 text.")
