"""The progress of a query told to a consumer group, as far as that is possible: nobody reads it back, so it never ends a query.

What cannot be committed (a group with members, a coordinator that is away) is a warning, and is tried again later: a query does not wait
for it before every micro-batch.
"""

import logging
from collections.abc import Callable
from time import monotonic
from typing import Final

from millstream.client.cluster import Cluster
from millstream.errors import MillstreamError
from millstream.spark.group_progress import GroupProgress
from millstream.spark.source.planning import Offsets

logger = logging.getLogger(__name__)

_MOST_PATIENCE_S: Final = 5.0
_PAUSE_S: Final = 30.0


class ToldProgress:
    """Tells one group."""

    def __init__(self, cluster: Cluster, group_id: str, *, timeout_s: float, clock: Callable[[], float] = monotonic) -> None:
        self._progress = GroupProgress(cluster, group_id, timeout_s=min(timeout_s, _MOST_PATIENCE_S))
        self._group_id = group_id
        self._clock = clock
        self._next_attempt = 0.0

    def tell(self, offsets: Offsets) -> None:
        """Commit these offsets, or say why not."""
        if self._clock() < self._next_attempt:
            return
        try:
            self._progress.commit(offsets)
        except MillstreamError as error:
            self._next_attempt = self._clock() + _PAUSE_S
            logger.warning(
                "the progress of the query is not told to the group %r, and tried again in %d s; the query goes on. %s",
                self._group_id,
                _PAUSE_S,
                error,
            )
