"""Says that a znode makes no sense: once for each time it was written, however often it is read."""

import logging

logger = logging.getLogger(__name__)


class Complaints:
    """What has been reported; any program can write to the tree, so it is forgotten when the znode makes sense again, or is gone."""

    def __init__(self) -> None:
        self._reported: dict[str, int] = {}

    def report(self, path: str, revision: int, error: Exception) -> None:
        """Say what is wrong with the znode; two writes of it differ in their `revision`."""
        if self._reported.get(path) != revision:
            self._reported[path] = revision
            logger.error("the znode %s makes no sense and is not taken over: %s", path, error)

    def forget(self, path: str) -> None:
        """There is nothing to complain about any more."""
        self._reported.pop(path, None)
