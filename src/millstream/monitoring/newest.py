"""The last of what one thread puts, for another one that takes it: what the other was too slow for is passed over."""

import threading
from typing import Generic, TypeVar

T = TypeVar("T")


class Newest(Generic[T]):
    """A place for one value."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._values: list[T] = []

    def put(self, value: T) -> None:
        """Replace what has not been taken."""
        with self._changed:
            self._values = [value]
            self._changed.notify()

    def take(self) -> T:
        """The value, as soon as there is one."""
        with self._changed:
            while not self._values:
                self._changed.wait()
            return self._values.pop()
