"""The options of groups: those of the broker, as the machines want them, and those of single groups (KIP-848), as clients see them.

The broker's are read once, at start, as Kafka does, and hold for all groups. An option of one group alone cannot be obeyed yet, so setting
it to anything but what holds anyway is refused.
"""

from collections.abc import Callable, Collection, Mapping, Sequence

from millstream.errors import InvalidConfig, InvalidRequest, UsageError
from millstream.groups.settings import GroupSettings
from millstream.options.alteration import Alteration, apply_incremental
from millstream.options.description import DescribedOption, describe_group
from millstream.options.group import GROUP_OPTIONS
from millstream.options.option import parse_value
from millstream.options.settings import BrokerSettings
from millstream.options.validation import find_option

MAX_GROUPS = 1_000_000
"""Groups in all. Kafka has no limit; a client that makes up group ids would fill the memory."""
_MINUTE_MS = 60_000
_ORDERED = (
    ("group.min.session.timeout.ms", "group.max.session.timeout.ms"),
    ("group.consumer.heartbeat.interval.ms", "group.consumer.session.timeout.ms"),
    ("group.consumer.min.heartbeat.interval.ms", "group.consumer.heartbeat.interval.ms"),
    ("group.consumer.heartbeat.interval.ms", "group.consumer.max.heartbeat.interval.ms"),
    ("group.consumer.min.session.timeout.ms", "group.consumer.session.timeout.ms"),
    ("group.consumer.session.timeout.ms", "group.consumer.max.session.timeout.ms"),
)
"""The first of each pair must not be above the second."""


def group_settings(settings: BrokerSettings) -> GroupSettings:
    """What the options say; UsageError if they contradict each other."""
    for lower, upper in _ORDERED:
        if settings.integer(lower) > settings.integer(upper):
            raise UsageError(f"{lower}={settings.integer(lower)} is above {upper}={settings.integer(upper)}")
    return GroupSettings(
        min_session_timeout_ms=settings.integer("group.min.session.timeout.ms"),
        max_session_timeout_ms=settings.integer("group.max.session.timeout.ms"),
        initial_rebalance_delay_ms=settings.integer("group.initial.rebalance.delay.ms"),
        max_group_size=settings.integer("group.max.size"),
        max_groups=max(MAX_GROUPS // settings.integer("offsets.topic.num.partitions"), 1),
        offset_metadata_max_bytes=settings.integer("offset.metadata.max.bytes"),
        offsets_retention_ms=settings.integer("offsets.retention.minutes") * _MINUTE_MS,
        offsets_retention_check_interval_ms=settings.integer("offsets.retention.check.interval.ms"),
        consumer_session_timeout_ms=settings.integer("group.consumer.session.timeout.ms"),
        consumer_heartbeat_interval_ms=settings.integer("group.consumer.heartbeat.interval.ms"),
        consumer_max_group_size=settings.integer("group.consumer.max.size"),
        consumer_assignors=settings.elements("group.consumer.assignors"),
        consumer_migration_policy=(settings.text("group.consumer.migration.policy") or "").lower(),
    )


class GroupConfigs:
    """The options of groups."""

    def __init__(self, settings: Callable[[], BrokerSettings]) -> None:
        self._settings = settings
        self._described: tuple[BrokerSettings, list[DescribedOption]] | None = None
        """The same for all groups, as long as the settings are: a request may name many."""

    def names(self) -> list[str]:
        """The groups that have options of their own: none."""
        return []

    def describe(self, name: str, options: Collection[str] | None) -> list[DescribedOption]:
        """What holds for the group, whether it exists or not, as in Kafka."""
        _check_name(name)
        settings = self._settings()
        if self._described is None or self._described[0] is not settings:
            self._described = (settings, describe_group(settings))
        return [row for row in self._described[1] if not options or row.name in options]

    async def replace(self, name: str, values: Mapping[str, str], *, validate_only: bool) -> None:
        """Refuse what differs from the broker's values."""
        del validate_only
        _check_name(name)
        for option, text in values.items():
            self._check(option, text)

    async def increment(self, name: str, alterations: Sequence[Alteration], *, validate_only: bool) -> None:
        """Refuse what differs from the broker's values."""
        _check_name(name)
        await self.replace(name, apply_incremental({}, alterations, options=GROUP_OPTIONS, inherited={}), validate_only=validate_only)

    def _check(self, name: str, text: str) -> None:
        option = find_option(GROUP_OPTIONS, name)
        (source,) = option.synonyms
        value = self._settings().value(source)
        if parse_value(option, text) != value:
            raise InvalidConfig(f"{name}={text} cannot be set for one group yet; {source}={value} holds for all, set with -X at start")


def _check_name(name: str) -> None:
    if not name:
        raise InvalidRequest("options are asked for and set by the name of a group, which must not be empty")
