"""The way of a topic's messages through its tiers: which tiers each one gets its messages from.

    producers ──► broker ──► consumers, loads
                    └─────► mirror ──► broker of the target ──► consumers, loads

Each tier is compared with what feeds it, summed. A tier that nothing feeds is a reference. Who does not know its cluster (an empty id) is
taken to be of the one that no mirror writes to.
"""

from collections.abc import Iterable

from millstream.audit.reports.report import Kind
from millstream.audit.topic_head import Tier

_READERS = frozenset({Kind.CONSUMER, Kind.LOAD})


class Chain:
    """What feeds what, among the tiers of one topic."""

    def __init__(self, tiers: Iterable[Tier]) -> None:
        known = sorted(tiers)
        self._producers = [tier for tier in known if tier.kind is Kind.PRODUCER]
        self._brokers = [tier for tier in known if tier.kind is Kind.BROKER]
        self._mirrors = [tier for tier in known if tier.kind is Kind.MIRROR]
        self._readers = [tier for tier in known if tier.kind in _READERS]

    def in_order(self) -> list[Tier]:
        """All tiers, each after those that feed it; the brokers that mirrors write to after the mirrors."""
        sources = [broker for broker in self._brokers if not self.mirrors_into(broker.cluster)]
        targets = [broker for broker in self._brokers if broker not in sources]
        return [*self._producers, *sources, *self._mirrors, *targets, *self._readers]

    def feeding(self, tier: Tier) -> list[Tier]:
        """The tiers that the messages of this one come from."""
        if tier.kind is Kind.PRODUCER:
            return []
        if tier.kind is Kind.BROKER:
            return self._into(tier.cluster)
        broker = self.broker_of(tier)
        return [broker] if broker is not None else self._into(tier.cluster)

    def broker_of(self, tier: Tier) -> Tier | None:
        """The broker that a mirror, consumer or load reads from."""
        named = [broker for broker in self._brokers if broker.cluster == tier.cluster]
        if not named and not tier.cluster:
            named = [broker for broker in self._brokers if not self.mirrors_into(broker.cluster)] or self._brokers
        return named[0] if named else None

    def target_of(self, mirror: Tier) -> Tier | None:
        """The broker that a mirror writes to."""
        written = [broker for broker in self._brokers if mirror in self.mirrors_into(broker.cluster)]
        return written[0] if written else None

    def mirrors_into(self, cluster: str) -> list[Tier]:
        """The mirrors that write to a cluster; one that does not say where writes to another one than it reads."""
        return [mirror for mirror in self._mirrors if mirror.target == cluster or (not mirror.target and mirror.cluster != cluster)]

    def _into(self, cluster: str) -> list[Tier]:
        mirrors = self.mirrors_into(cluster)
        producers = [tier for tier in self._producers if tier.cluster == cluster or not cluster or (not tier.cluster and not mirrors)]
        return producers + mirrors
