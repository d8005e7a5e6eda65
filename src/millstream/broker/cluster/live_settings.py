"""The broker's options as they are now: given at start, changed while it runs; and what they mean for the log of a topic."""

import logging
from collections.abc import Mapping

from millstream.cluster.controller.leader_election import ElectionRules
from millstream.coordination.cluster_view import DEFAULT_BROKER, ClusterView, TopicState
from millstream.errors import InvalidConfig
from millstream.log.config import LogConfig
from millstream.options.resolution import resolve_topic
from millstream.options.settings import BrokerSettings

logger = logging.getLogger(__name__)

MAX_REMEMBERED = 10_000


class LiveSettings:
    """Holds the current `BrokerSettings`, swapped whole with each view that changes them."""

    def __init__(self, static: Mapping[str, str], *, node_id: int) -> None:
        self.current = BrokerSettings(static)
        self._node_id = str(node_id)
        self._log_configs: dict[frozenset[tuple[str, str]], LogConfig] = {}
        """By the topic's own options; good for as long as `current` is."""

    def know(self, facts: Mapping[str, str]) -> None:
        """Take over what was decided at the start beside the options: who the broker is, and where it listens."""
        current = self.current
        self.current = BrokerSettings({**current.static, **facts}, dynamic=current.dynamic, dynamic_default=current.dynamic_default)

    def apply(self, view: ClusterView) -> None:
        """Take over the dynamic options of a view; if one of them is refused (an older version took it), what was set stays."""
        dynamic = view.broker_configs.get(self._node_id, {})
        dynamic_default = view.broker_configs.get(DEFAULT_BROKER, {})
        if dynamic != self.current.dynamic or dynamic_default != self.current.dynamic_default:
            try:
                self.current = self.current.with_dynamic(dynamic=dynamic, dynamic_default=dynamic_default)
                self._log_configs.clear()
            except InvalidConfig as error:
                logger.error("the options set on this broker while it ran are not used: %s", error)

    def log_config(self, topic: TopicState) -> LogConfig:
        """How the logs of a topic are kept; with the broker's defaults, if its own options are refused (an older version took them).

        Asked for every topic with every new view, so topics with the same options share one answer, worked out once.
        """
        own = frozenset(topic.configs.items())
        config = self._log_configs.get(own)
        if config is None:
            if len(self._log_configs) >= MAX_REMEMBERED:
                self._log_configs.clear()
            config = self._log_configs[own] = self._work_out(topic)
        return config

    def election_rules(self, topic: TopicState) -> ElectionRules:
        """What the options of a topic say about elections of its leaders."""
        config = self.log_config(topic)
        return ElectionRules(config.min_insync_replicas, allows_unclean=config.unclean_leader_election_enable)

    def _work_out(self, topic: TopicState) -> LogConfig:
        try:
            values = resolve_topic(topic.configs, self.current.texts)
        except InvalidConfig as error:
            logger.error("the options of topic %s are not used: %s", topic.name, error)
            values = resolve_topic({}, self.current.texts)
        return LogConfig.of(values)
