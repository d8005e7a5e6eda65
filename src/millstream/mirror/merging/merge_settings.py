"""What a merging mirror is given: the source, the target, which topics, and what their names begin with at the target."""

import re
from dataclasses import dataclass
from typing import Final

from millstream.client.security.client_security import NO_SECURITY, ClientSecurity

NOT_MERGED: Final = frozenset({"_schemas", "_audit", "_audit_state", "_mirror"})
"""Topics that describe a cluster, and mean nothing in another one beside its own."""


@dataclass(frozen=True)
class MergeSettings:
    """The settings of one merging mirror."""

    source: str
    target: str
    pattern: re.Pattern[str]
    group: str
    """The consumer group that keeps the progress: at the source, or with `exactly_once` at the target."""
    prefix: str = ""
    exactly_once: bool = False
    refresh_s: float = 3.0
    commit_s: float = 2.0
    source_security: ClientSecurity = NO_SECURITY
    target_security: ClientSecurity = NO_SECURITY

    def takes(self, topic: str) -> bool:
        """Whether a topic of the source is copied."""
        is_own = topic.startswith("__") or topic in NOT_MERGED
        return not is_own and self.pattern.fullmatch(topic) is not None

    def target_topic(self, topic: str) -> str:
        """What a topic of the source is called at the target."""
        return self.prefix + topic
