"""The options of consumer groups (KIP-848): described with the values of the broker, which hold for all groups.

An option of one group alone cannot be obeyed yet, so setting it to anything but what holds anyway is refused.
"""

from collections.abc import Callable, Collection, Mapping, Sequence

from millstream.errors import InvalidConfig, InvalidRequest
from millstream.options.alteration import Alteration, apply_incremental
from millstream.options.description import DescribedOption, describe_group
from millstream.options.group import GROUP_OPTIONS
from millstream.options.option import parse_value
from millstream.options.settings import BrokerSettings
from millstream.options.validation import find_option


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
