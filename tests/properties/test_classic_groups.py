"""Whatever clients do, and in whatever order, a classic group keeps its promises.

Random scripts of joins, syncs, heartbeats, leaves, commits, restarts of static members, pauses and crashes of the coordinator. Always true:
every request is answered exactly once in the end; an assignment is only ever given to the member it was made for, in the generation it was
made for, so no two members own the same partition in one generation; a member whose heartbeat is fine has the current generation; no
committed offset changes unless somebody committed it; replaying the records brings back the same offsets, and every stable group as it was.
"""

from typing import Any

import hypothesis.strategies as st
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from millstream.coordinator_shard import Fields
from millstream.groups.commands import Protocol
from tests.machines.group_script import DELAY_MS, GROUP, RANGE, REBALANCE_MS, SESSION_MS, Script

CLIENTS = st.integers(0, 4)
OTHER = (Protocol("range", b"other"), Protocol("sticky", b""))


class Client:
    """What one client believes."""

    def __init__(self, number: int) -> None:
        self.instance_id = f"instance-{number}" if number < 2 else None
        self.reset()

    def reset(self) -> None:
        self.member_id = ""
        self.generation_id = -1
        self.is_leader = False
        self.members: list[str] = []
        self.join_waiter: int | None = None
        self.sync_waiter: int | None = None


class ClassicGroups(RuleBasedStateMachine):
    """One group, five clients, two of them static."""

    def __init__(self) -> None:
        super().__init__()
        self.script = Script()
        self.clients = [Client(number) for number in range(5)]
        self.expected: dict[int, int] = {}
        self.lost = 0
        """Requests up to this one had no answer when the coordinator crashed."""

    def _hear(self) -> None:
        """Clients read the answers that have come."""
        for client in self.clients:
            answer = self._answer(client.join_waiter)
            if answer is not None:
                client.join_waiter = None
                if answer["error_code"] == 0:
                    client.member_id, client.generation_id = answer["member_id"], answer["generation_id"]
                    client.is_leader = answer["leader"] == client.member_id and not answer["skip_assignment"]
                    client.members = [member["member_id"] for member in answer["members"]]
                elif answer["error_code"] == 79:
                    client.member_id = answer["member_id"]
                elif answer["error_code"] in (25, 82):
                    client.reset()
            answer = self._answer(client.sync_waiter)
            if answer is not None:
                client.sync_waiter = None
                if answer["error_code"] == 0 and answer["assignment"]:
                    self._check_owner(client, answer)

    def _answer(self, waiter: int | None) -> Any:
        return None if waiter is None else self.script.answers.get(waiter)

    def _check_owner(self, client: Client, answer: Fields) -> None:
        generation, owner = str(answer["assignment"], "utf-8").split("/", 1)  # type: ignore[call-overload]
        # A static member that was restarted takes over what its former self had.
        assert client.instance_id is not None or owner == client.member_id
        assert int(generation) == client.generation_id

    @rule(number=CLIENTS, protocols=st.sampled_from([RANGE, OTHER]), is_modern=st.booleans())
    def join(self, number: int, protocols: tuple[Protocol, ...], is_modern: bool) -> None:
        client = self.clients[number]
        client.join_waiter = self.script.join(
            client.member_id, protocols=protocols, instance_id=client.instance_id, requires_known_member_id=is_modern
        )
        self._hear()

    @rule(number=CLIENTS)
    def sync(self, number: int) -> None:
        client = self.clients[number]
        assignments = {}
        if client.is_leader:
            assignments = {member_id: f"{client.generation_id}/{member_id}".encode() for member_id in client.members}
        client.sync_waiter = self.script.sync(
            client.member_id, client.generation_id, assignments=assignments, instance_id=client.instance_id
        )
        self._hear()

    @rule(numbers=st.sets(CLIENTS, min_size=1))
    def behave_well(self, numbers: set[int]) -> None:
        """Some clients do what they should until they are members of a stable group."""
        for _ in range(2):  # those who had to be told that they are nobody come again
            for number in numbers:
                if self.clients[number].join_waiter is None:
                    self.join(number, RANGE, is_modern=False)
        self.pause(2 * DELAY_MS)
        for number in sorted(numbers, key=lambda number: self.clients[number].is_leader):
            if self.clients[number].generation_id > 0:
                self.sync(number)

    @rule(number=CLIENTS)
    def heartbeat(self, number: int) -> None:
        client = self.clients[number]
        code = self.script.heartbeat(client.member_id, client.generation_id, client.instance_id)
        described = self.script.coordinator.describe(GROUP)
        if code == 0:
            assert described["group_state"] in ("Stable", "CompletingRebalance")
        elif code in (25, 82):
            client.reset()

    @rule(number=CLIENTS)
    def leave(self, number: int) -> None:
        client = self.clients[number]
        self.script.leave((client.member_id, client.instance_id))
        self._hear()

    @rule(number=CLIENTS)
    def restart_client(self, number: int) -> None:
        self.clients[number].reset()

    @rule(number=CLIENTS, partition=st.integers(0, 2), offset=st.integers(0, 100))
    def commit(self, number: int, partition: int, offset: int) -> None:
        client = self.clients[number]
        if self.script.commit(offset, client.member_id, client.generation_id, partition=partition) == 0:
            self.expected[partition] = offset

    @rule(duration_ms=st.sampled_from([1, DELAY_MS, SESSION_MS // 2, SESSION_MS, REBALANCE_MS]))
    def pause(self, duration_ms: int) -> None:
        self.script.move(duration_ms)
        self._hear()

    @precondition(lambda self: self.script.log)
    @rule()
    def crash(self) -> None:
        """The coordinator's process dies: what waited is lost with its connections."""
        self._check_restarted()
        self.lost = self.script.asked
        self.script = self.script.restarted()
        self.script.asked = self.lost
        for client in self.clients:
            client.join_waiter = client.sync_waiter = None

    @invariant()
    def offsets_change_only_by_commits(self) -> None:
        for partition in range(3):
            assert self.script.committed(partition) == self.expected.get(partition, -1)

    @invariant()
    def every_request_is_answered_or_held(self) -> None:
        held = self._held()
        for waiter in range(self.lost + 1, self.script.asked + 1):
            assert (waiter in self.script.answers) != (waiter in held)

    def _held(self) -> set[object]:
        """The waiters that the machine has not answered yet."""
        groups = self.script.coordinator._groups
        members = [member for group in groups for member in group.roster]  # type: ignore[union-attr]
        return {member.join_waiter for member in members} | {member.sync_waiter for member in members}

    def _check_restarted(self) -> None:
        again = self.script.restarted()
        assert [again.committed(partition) for partition in range(3)] == [self.expected.get(partition, -1) for partition in range(3)]
        assert {group["group_id"] for group in again.coordinator.list_groups()} == {
            group["group_id"] for group in self.script.coordinator.list_groups()
        }
        if self.script.state in ("Stable", "Empty"):
            assert again.coordinator.describe(GROUP) == self.script.coordinator.describe(GROUP)

    def teardown(self) -> None:
        """In the end every group is empty or stable, and nobody waits any more."""
        self._check_restarted()
        self.script.move(40 * REBALANCE_MS)
        assert not self._held() - {None}
        assert self.script.state in ("Empty", "Dead")
        self.script.take(self.script.coordinator.unloaded())


TestClassicGroups = ClassicGroups.TestCase
TestClassicGroups.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
