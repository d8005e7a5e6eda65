"""What has options that clients can ask for and change: one class per kind of resource, with one contract.

Topics, brokers and groups are here, the levels of loggers in `logger_levels`. What is set on topics and brokers is kept in the
coordination tree: a change is worked out on what is set, checked, and worked out again when it is written.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Protocol

from millstream.broker.cluster.live_settings import LiveSettings
from millstream.cluster.controller.controller import Controller
from millstream.coordination.cluster_view import DEFAULT_BROKER
from millstream.coordination.topic_names import check_name
from millstream.errors import InvalidConfig, InvalidRequest, UnknownTopicOrPartition
from millstream.options.alteration import Alteration, apply_incremental
from millstream.options.broker import BROKER_OPTIONS
from millstream.options.description import DescribedOption, describe_broker, describe_group, describe_topic
from millstream.options.group import GROUP_OPTIONS
from millstream.options.option import Option, parse_value
from millstream.options.settings import BrokerSettings, ConfigSource
from millstream.options.topic import TOPIC_OPTIONS
from millstream.options.validation import find_option, validate_dynamic_broker_values, validate_topic_overrides

SETTLE_TIMEOUT_MS = 10_000

Change = Callable[[Mapping[str, str]], dict[str, str]]
"""From what is set to what is to be set; raises if that is not allowed."""


class ConfigResource(Protocol):
    """One kind of resource with options."""

    @property
    def needs_controller(self) -> bool:
        """Whether changes are made by the controller, for all brokers."""

    def check_asked_here(self, name: str) -> None:
        """Raise unless this broker may be asked to change the options of that resource."""

    def names(self) -> list[str]:
        """The resources of this kind that there are."""

    def describe(self, name: str, options: Collection[str] | None) -> list[DescribedOption]:
        """The options of one of them, or the chosen ones of them."""

    async def replace(self, name: str, values: Mapping[str, str], *, validate_only: bool) -> None:
        """Set exactly these."""

    async def increment(self, name: str, alterations: Sequence[Alteration], *, validate_only: bool) -> None:
        """Change the given ones and leave the others alone."""


class TopicConfigs:
    """The options of topics."""

    needs_controller = True

    def __init__(self, controller: Controller, settings: LiveSettings) -> None:
        self._controller = controller
        self._settings = settings

    def check_asked_here(self, name: str) -> None:
        """Any broker may be asked."""

    def names(self) -> list[str]:
        return list(self._controller.view.topics)

    def describe(self, name: str, options: Collection[str] | None) -> list[DescribedOption]:
        return describe_topic(self._set_on(name), self._settings.current, names=options)

    async def replace(self, name: str, values: Mapping[str, str], *, validate_only: bool) -> None:
        await self._alter(name, lambda _current: dict(values), validate_only=validate_only)

    async def increment(self, name: str, alterations: Sequence[Alteration], *, validate_only: bool) -> None:
        def change(current: Mapping[str, str]) -> dict[str, str]:
            return _incremented(current, alterations, TOPIC_OPTIONS, describe_topic(current, self._settings.current))

        await self._alter(name, change, validate_only=validate_only)

    async def _alter(self, name: str, change: Change, *, validate_only: bool) -> None:
        """Kafka's order: whether the change can be made, the name, the values, and only then whether there is such a topic."""
        topic = self._controller.view.topics.get(name)
        changed = change({} if topic is None else topic.configs)
        if not name:
            raise InvalidRequest("options are set on topics by name; defaults for all topics are options of the brokers")
        check_name(name)
        validate_topic_overrides(changed)
        if topic is None:
            raise _no_such_topic(name)
        checked = _checked(change, validate_topic_overrides)
        if not validate_only:
            await self._controller.alter_topic_configs(name, checked, timeout_ms=SETTLE_TIMEOUT_MS)

    def _set_on(self, name: str) -> Mapping[str, str]:
        topic = self._controller.view.topics.get(name)
        if topic is None:
            check_name(name)
            raise _no_such_topic(name)
        return topic.configs


class BrokerConfigs:
    """The options of this broker, and those of all brokers, whose name is empty; the controller changes those of the others too."""

    needs_controller = True

    def __init__(self, controller: Controller, settings: LiveSettings, *, node_id: int) -> None:
        self._controller = controller
        self._settings = settings
        self._node_id = node_id

    def check_asked_here(self, name: str) -> None:
        """A broker is asked itself for its options, as in Kafka; any broker for those of all."""
        if name not in ("", str(self._node_id)):
            raise InvalidRequest(f"this is broker {self._node_id}; ask broker {name!r} itself for its options")

    def names(self) -> list[str]:
        return [str(node_id) for node_id in self._controller.view.brokers]

    def describe(self, name: str, options: Collection[str] | None) -> list[DescribedOption]:
        self.check_asked_here(name)
        current = self._settings.current
        if name:
            return describe_broker(current, names=options)
        defaults = BrokerSettings(dynamic_default=current.dynamic_default)
        return [row for row in describe_broker(defaults, names=options) if row.source is ConfigSource.DYNAMIC_DEFAULT_BROKER]

    async def replace(self, name: str, values: Mapping[str, str], *, validate_only: bool) -> None:
        await self._alter(name, lambda _current: dict(values), validate_only=validate_only)

    async def increment(self, name: str, alterations: Sequence[Alteration], *, validate_only: bool) -> None:
        def change(current: Mapping[str, str]) -> dict[str, str]:
            return _incremented(current, alterations, BROKER_OPTIONS, describe_broker(self._settings.current))

        await self._alter(name, change, validate_only=validate_only)

    async def _alter(self, name: str, change: Change, *, validate_only: bool) -> None:
        if name and name not in self.names():
            raise InvalidRequest(f"there is no broker {name!r}")
        broker = name or DEFAULT_BROKER
        checked = _checked(change, _validate_broker)
        checked(self._controller.view.broker_configs.get(broker, {}))
        if not validate_only:
            await self._controller.alter_broker_configs(broker, checked, timeout_ms=SETTLE_TIMEOUT_MS)


class GroupConfigs:
    """The options of consumer groups (KIP-848): described with the values of the broker, which hold for all groups.

    An option of one group alone cannot be obeyed yet, so setting it to anything but what holds anyway is refused.
    """

    needs_controller = False

    def __init__(self, settings: LiveSettings) -> None:
        self._settings = settings
        self._described: tuple[BrokerSettings, list[DescribedOption]] | None = None
        """The same for all groups, as long as the settings are: a request may name many."""

    def check_asked_here(self, name: str) -> None:
        """Any broker may be asked."""

    def names(self) -> list[str]:
        """The groups that have options of their own: none."""
        return []

    def describe(self, name: str, options: Collection[str] | None) -> list[DescribedOption]:
        """What holds for the group, whether it exists or not, as in Kafka."""
        _check_group_name(name)
        settings = self._settings.current
        if self._described is None or self._described[0] is not settings:
            self._described = (settings, describe_group(settings))
        return [row for row in self._described[1] if not options or row.name in options]

    async def replace(self, name: str, values: Mapping[str, str], *, validate_only: bool) -> None:
        """Refuse what differs from the broker's values."""
        del validate_only
        _check_group_name(name)
        for option, text in values.items():
            self._check(option, text)

    async def increment(self, name: str, alterations: Sequence[Alteration], *, validate_only: bool) -> None:
        """Refuse what differs from the broker's values."""
        _check_group_name(name)
        await self.replace(name, apply_incremental({}, alterations, options=GROUP_OPTIONS, inherited={}), validate_only=validate_only)

    def _check(self, name: str, text: str) -> None:
        option = find_option(GROUP_OPTIONS, name)
        (source,) = option.synonyms
        value = self._settings.current.value(source)
        if parse_value(option, text) != value:
            raise InvalidConfig(f"{name}={text} cannot be set for one group yet; {source}={value} holds for all, set with -X at start")


def _check_group_name(name: str) -> None:
    if not name:
        raise InvalidRequest("options are asked for and set by the name of a group, which must not be empty")


def _validate_broker(values: Mapping[str, str]) -> None:
    """Kafka's code: what is wrong with an option of a topic is INVALID_CONFIG, with one of a broker INVALID_REQUEST."""
    try:
        validate_dynamic_broker_values(values)
    except InvalidConfig as error:
        raise InvalidRequest(str(error)) from None


def _no_such_topic(name: str) -> UnknownTopicOrPartition:
    return UnknownTopicOrPartition(f"topic {name!r} does not exist")


def _incremented(
    current: Mapping[str, str], alterations: Sequence[Alteration], options: Mapping[str, Option], rows: Sequence[DescribedOption]
) -> dict[str, str]:
    inherited = {row.name: row.value for row in rows if row.value is not None}
    return apply_incremental(current, alterations, options=options, inherited=inherited)


def _checked(change: Change, validate: Callable[[Mapping[str, str]], None]) -> Change:
    def checked(current: Mapping[str, str]) -> dict[str, str]:
        changed = change(current)
        validate(changed)
        return changed

    return checked
