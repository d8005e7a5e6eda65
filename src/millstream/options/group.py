"""The options of a consumer group (KIP-848): those of Kafka 4.2 that there is something to obey for.

Each takes its value from the broker option of the same meaning, its synonym. Share groups and streams groups do not exist here, nor do
their options.
"""

from collections.abc import Mapping
from types import MappingProxyType

from millstream.options.broker import BROKER_OPTIONS
from millstream.options.option import Option

_NAMES = ("consumer.heartbeat.interval.ms", "consumer.session.timeout.ms")


def _of_broker(name: str) -> Option:
    """The option that does for one group what `group.<name>` does for all."""
    source = BROKER_OPTIONS[f"group.{name}"]
    return source._replace(name=name, synonyms=(source.name,), is_read_only=False)


GROUP_OPTIONS: Mapping[str, Option] = MappingProxyType({name: _of_broker(name) for name in _NAMES})
"""Every option of a group, by name, in alphabetical order."""
