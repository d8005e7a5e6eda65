import asyncio
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, cast

from millstream.broker.cluster.config_resources import ConfigResource
from millstream.broker.handlers.configs import ALTERED_AT_ONCE, TOPIC, ConfigsFamily
from millstream.broker.network.api import Request
from millstream.errors import InvalidConfig, InvalidRequest
from millstream.options.alteration import Alteration

COUNT = 2 * ALTERED_AT_ONCE + 1


class WaitingTopics:
    """Topics whose options are changed as soon as several wait for it."""

    needs_controller = True

    def __init__(self) -> None:
        self.waiting = self.most_waiting = 0
        self._go_on = asyncio.Event()

    async def increment(self, name: str, alterations: Sequence[Alteration], *, validate_only: bool) -> None:
        del alterations, validate_only
        self.waiting += 1
        self.most_waiting = max(self.most_waiting, self.waiting)
        if self.waiting == ALTERED_AT_ONCE:
            self._go_on.set()
        await self._go_on.wait()
        self.waiting -= 1
        if name == "t7":
            raise InvalidConfig("not this one")


def request(names: list[str]) -> Request:
    """A request that a broker has passed on to the controller."""
    resources = [SimpleNamespace(resource_type=TOPIC, resource_name=name, configs=[("retention.ms", 0, "1")]) for name in names]
    message = SimpleNamespace(resources=resources, validate_only=False)
    return cast("Request", SimpleNamespace(decode=lambda: message, is_forwarded=True))


async def test_options_of_many_topics_are_changed_together_and_answered_in_order() -> None:
    topics = WaitingTopics()
    others = cast("ConfigResource", None)
    family = ConfigsFamily(cast("Any", None), topics=cast("ConfigResource", topics), brokers=others, loggers=others, groups=others)
    names = [f"t{number}" for number in range(COUNT)] + ["twice", "twice"]
    async with asyncio.timeout(30):
        answer = cast("dict[str, Any]", await family.incremental_alter_configs(request(names)))
    codes = {one["resource_name"]: one["error_code"] for one in answer["responses"] if one["error_code"]}
    assert [one["resource_name"] for one in answer["responses"]] == names
    assert codes == {"t7": InvalidConfig.code, "twice": InvalidRequest.code}
    assert topics.most_waiting == ALTERED_AT_ONCE
