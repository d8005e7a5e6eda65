"""Which requests a round sends; with real brokers it is tried in `tests/mirror/test_shared_work.py`."""

from collections import Counter
from types import SimpleNamespace
from typing import Any, cast

from millstream.address import Address
from millstream.client.codecs.request import MessageRequest
from millstream.client.errors import BrokerUnavailable
from millstream.errors import UnknownMemberId
from millstream.mirror.clusters.side import Side
from millstream.mirror.groups.group_copier import ASKED_AT_ONCE, GroupCopier
from millstream.topic_partition import TopicPartition
from millstream.wire.api import ApiKey

PLACE = TopicPartition("orders", 0)
ENDS = {PLACE: 50}


class FakeSide:
    """A cluster with groups that have each committed one offset."""

    def __init__(self, committed: dict[str, int]) -> None:
        self.committed = committed
        self.in_use: set[str] = set()
        self.requests: Counter[int] = Counter()
        self.forgotten: list[str] = []
        self.is_away = False

    async def ask_every_broker(self, request: MessageRequest[Any]) -> list[Any]:
        self.requests[request.api_key] += 1
        return [SimpleNamespace(error_code=0, groups=[SimpleNamespace(group_id=group) for group in self.committed])]

    def forget_coordinator(self, group: str) -> None:
        self.forgotten.append(group)

    async def coordinators(self, groups: list[str]) -> dict[str, Address]:
        return dict.fromkeys(groups, Address("localhost", 1))

    async def ask_at(self, _address: Address, request: MessageRequest[Any]) -> Any:
        self.requests[request.api_key] += 1
        names = [group["group_id"] for group in cast("list[dict[str, str]]", request.fields["groups"])]
        return SimpleNamespace(groups=[self._group(name) for name in names])

    def _group(self, name: str) -> Any:
        offset = self.committed.get(name)
        partitions = [] if offset is None else [SimpleNamespace(partition_index=0, committed_offset=offset, error_code=0)]
        return SimpleNamespace(group_id=name, error_code=0, topics=[SimpleNamespace(name="orders", partitions=partitions)])

    async def ask_coordinator(self, group: str, request: MessageRequest[Any]) -> Any:
        self.requests[request.api_key] += 1
        if self.is_away:
            raise BrokerUnavailable("the coordinator is away")
        error_code = UnknownMemberId.code if group in self.in_use else 0
        if not error_code:
            self.committed[group] = cast(Any, request.fields["topics"])[0]["partitions"][0]["committed_offset"]
        return SimpleNamespace(topics=[SimpleNamespace(partitions=[SimpleNamespace(error_code=error_code)])])


async def test_a_round_asks_about_many_groups_at_once_and_writes_only_what_has_changed() -> None:
    names = [f"g{number:04d}" for number in range(3 * ASKED_AT_ONCE)]
    source, target = FakeSide(dict.fromkeys(names, 30)), FakeSide({})
    copier = GroupCopier(cast(Side, source), cast(Side, target))
    assert (await copier.copy(ENDS), source.requests[ApiKey.OFFSET_FETCH], target.requests[ApiKey.OFFSET_COMMIT]) == (150, 3, 150)
    source.requests.clear()
    target.requests.clear()
    assert (await copier.copy(ENDS), source.requests.total(), target.requests.total()) == (0, 4, 0)
    source.committed["g0007"] = 90
    assert (await copier.copy(ENDS), target.requests.total(), target.committed["g0007"]) == (1, 2, 50)
    assert await copier.copy({PLACE: 70}) == 1
    assert target.committed["g0007"] == 70


async def test_what_a_group_committed_at_the_target_meanwhile_is_not_taken_back() -> None:
    source, target = FakeSide({"g": 10}), FakeSide({})
    copier = GroupCopier(cast(Side, source), cast(Side, target))
    assert await copier.copy(ENDS) == 1
    target.committed["g"] = 40
    source.committed["g"] = 20
    assert (await copier.copy(ENDS), target.committed["g"]) == (0, 40)


async def test_a_group_in_use_at_the_target_is_not_tried_with_every_round() -> None:
    source, target = FakeSide({"busy": 10, "idle": 10}), FakeSide({})
    target.in_use.add("busy")
    copier = GroupCopier(cast(Side, source), cast(Side, target))
    assert [await copier.copy(ENDS) for _ in range(3)] == [1, 0, 0]
    assert target.requests[ApiKey.OFFSET_COMMIT] == 2


async def test_another_coordinator_is_looked_for_after_one_did_not_answer() -> None:
    source, target = FakeSide({"g": 10}), FakeSide({})
    copier = GroupCopier(cast(Side, source), cast(Side, target))
    target.is_away = True
    assert (await copier.copy(ENDS), target.forgotten) == (0, ["g"])
    target.is_away = False
    assert (await copier.copy(ENDS), target.committed) == (1, {"g": 10})
