"""What this broker can do beyond single APIs, by Kafka's names (KIP-584): only what works.

`group.version` 1 is the consumer group protocol of KIP-848. There is no `transaction.version` before there are transactions, and never a
`metadata.version` or `kraft.version`: these number the formats of Kafka's metadata log, which does not exist here.
"""

from typing import NamedTuple


class Feature(NamedTuple):
    """One feature: the levels that the broker knows, and the one that holds in the cluster."""

    name: str
    lowest: int
    highest: int
    finalized: int


FEATURES = (Feature("group.version", 0, 1, 1),)
FINALIZED_EPOCH = 0
"""Kafka counts the changes of finalized levels; here they never change."""


def supported(*, with_lowest_0: bool) -> list[dict[str, object]]:
    """What the broker knows; clients before ApiVersions 4 stumble over levels that begin at 0 (KIP-1022)."""
    return [
        {"name": one.name, "min_version": one.lowest, "max_version": one.highest} for one in FEATURES if with_lowest_0 or one.lowest > 0
    ]


def finalized() -> list[dict[str, object]]:
    """What holds in the cluster."""
    return [{"name": one.name, "min_version_level": one.finalized, "max_version_level": one.finalized} for one in FEATURES]
