"""Merges until it is stopped: one `Merger` after the other. What may pass ends one, and the next goes on where the progress says."""

import logging
import threading
from collections.abc import Mapping
from typing import Final

from millstream.client.cluster import Cluster
from millstream.client.errors import AuthenticationFailed, ClientError
from millstream.errors import CommandFailed
from millstream.mirror.clusters.librdkafka import LibrdkafkaFailed
from millstream.mirror.merging.merge_settings import MergeSettings
from millstream.mirror.merging.merged_partition import MergedPartitions
from millstream.mirror.merging.merger import Merger, RecordRefused
from millstream.mirror.status.paused_topics import PausedTopics
from millstream.topic_partition import TopicPartition

logger = logging.getLogger(__name__)

_PAUSE_S: Final = 1.0
_TIMEOUT_S: Final = 10.0


class Merging:
    """The work of one merging process."""

    def __init__(self, settings: MergeSettings, partitions: MergedPartitions | None = None) -> None:
        """`partitions` is updated with what the target has."""
        self._settings = settings
        self._partitions = partitions or MergedPartitions()
        self._paused = PausedTopics("")
        self._stopped = threading.Event()
        self._merger: Merger | None = None
        self._refused: dict[TopicPartition, str] = {}
        """Partitions with a record that the target does not take, and why."""
        self._failure: str | None = None

    def stop(self) -> None:
        """Let `run` commit and return; from any thread or signal handler."""
        self._stopped.set()
        if self._merger is not None:
            self._merger.stop()

    def pause(self, paused: PausedTopics) -> None:
        """From now on merge nothing of paused topics, and go on with others; from any thread."""
        self._paused = paused

    @property
    def error(self) -> str | None:
        """Why it begins again; None while it merges."""
        merger = self._merger
        return None if merger is not None and merger.is_merging else self._failure

    @property
    def refused(self) -> Mapping[str, str]:
        """Topics that the target does not take, and why."""
        return {} if self._merger is None else dict(self._merger.topics.refused)

    def run(self) -> None:
        """Merge until `stop` is called; `CommandFailed` for what does not pass: a login that is refused, a successor."""
        while not self._stopped.is_set():
            try:
                self._look_at_both()
                self._merger = Merger(self._settings, self._partitions, refused=self._refused, is_paused=self._is_paused)
                self._merger.run()
            except AuthenticationFailed as error:
                raise CommandFailed(str(error)) from None
            except RecordRefused as error:
                self._refused[error.place] = str(error)
            except ClientError as error:
                if isinstance(error, LibrdkafkaFailed) and error.is_fenced:
                    raise CommandFailed(f"another process with the name of this mirror has taken over: {error}") from None
                if isinstance(error, LibrdkafkaFailed) and error.is_final:
                    raise CommandFailed(str(error)) from None
                self._begin_again(error)

    def _begin_again(self, error: ClientError) -> None:
        """After a pause; said once for as long as it is the same that keeps it from merging."""
        merger = self._merger
        has_merged = merger is not None and merger.is_merging
        if merger is not None:
            merger.is_merging = False
        if has_merged or str(error) != self._failure:
            logger.warning("merging begins again where it was committed, and is tried again until it can: %s", error)
        self._failure = str(error)
        self._stopped.wait(_PAUSE_S)

    def _is_paused(self, topic: str) -> bool:
        return self._paused.is_paused(topic)

    def _look_at_both(self) -> None:
        """Connect to both clusters with our own client first: librdkafka does not say why it is not let in."""
        settings = self._settings
        for servers, security in ((settings.source, settings.source_security), (settings.target, settings.target_security)):
            with Cluster(servers, timeout_s=_TIMEOUT_S, security=security) as cluster:
                cluster.refresh([])
