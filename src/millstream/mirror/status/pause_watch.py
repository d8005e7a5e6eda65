"""Looks every second which topics of a mirror are paused, and passes it on to whoever copies them."""

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from millstream.errors import MillstreamError
from millstream.mirror.status.mirror_topic import MirrorTopic
from millstream.mirror.status.paused_topics import PausedTopics

logger = logging.getLogger(__name__)

LOOK_S: Final = 1.0


class PauseWatch:
    """What is paused of one mirror."""

    def __init__(self, name: str, topic: MirrorTopic, on_look: Callable[[PausedTopics], object]) -> None:
        self._name = name
        self._topic = topic
        self._on_look = on_look

    async def run(self) -> None:
        """Look until this is cancelled."""
        while True:
            await asyncio.sleep(LOOK_S)
            await self.look()

    async def look(self) -> None:
        """Look now; while the target cannot be asked, what was paused stays so."""
        try:
            self._on_look(PausedTopics(self._name, await self._topic.read()))
        except MillstreamError as error:
            logger.debug("what is paused is read later: %s", error)
