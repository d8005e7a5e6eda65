"""Says which partitions cannot be fetched: one line for all that have the same trouble at the same time, however many they are."""

import asyncio
import logging
from typing import Final

from millstream.topic_partition import TopicPartition

logger = logging.getLogger(__name__)

COLLECT_S: Final = 0.1
MOST_NAMED: Final = 5


class FetchTroubles:
    """What was noticed with the partitions of one leader, and is about to be logged."""

    def __init__(self, leader: int) -> None:
        self._leader = leader
        self._loop = asyncio.get_running_loop()
        self._collected: dict[tuple[int, type[Exception]], tuple[Exception, list[TopicPartition]]] = {}

    def is_tried_again(self, name: TopicPartition, error: Exception) -> None:
        """A partition could not be fetched for a while."""
        self._add(logging.INFO, name, error)

    def is_given_up(self, name: TopicPartition, error: Exception) -> None:
        """A partition is not fetched any more: its disk here failed."""
        self._add(logging.ERROR, name, error)

    def _add(self, level: int, name: TopicPartition, error: Exception) -> None:
        if not self._collected:
            self._loop.call_later(COLLECT_S, self._log)
        self._collected.setdefault((level, type(error)), (error, []))[1].append(name)

    def _log(self) -> None:
        collected, self._collected = self._collected, {}
        for (level, kind), (error, names) in collected.items():
            if level == logging.ERROR:
                logger.error("%s offline here and not copied from broker %d any more: %s", _subject(names), self._leader, error)
            else:
                logger.info("%s not fetched from broker %d, tried again: %s: %s", _subject(names), self._leader, kind.__name__, error)


def _subject(names: list[TopicPartition]) -> str:
    """The names as the subject of a sentence, with its verb."""
    if len(names) == 1:
        return f"{names[0]} is"
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    return f"{len(names)} partitions ({', '.join(map(str, names[:MOST_NAMED]))}{more}) are"
