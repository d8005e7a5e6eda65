"""Online migration between the classic protocol and KIP-848: groups with members that change their kind, as Kafka 4.2 does it."""

from typing import cast

import pytest

from millstream.coordinator_shard import Fields
from millstream.groups.commands import CommitOffsets, PartitionOffset, Protocol, TopicOffsets
from millstream.groups.consumer.records import ClassicProtocols, ConsumerKey, ConsumerRecordType, MemberMetadata
from millstream.groups.consumer_protocol import ClassicAssignment, decode_assignment
from millstream.groups.records import decode_record
from tests.machines.consumer_group_script import Client
from tests.machines.migration_script import (
    DELAY_MS,
    REBALANCE_MS,
    SESSION_MS,
    ClassicClient,
    MigrationScript,
    assignment,
    settle,
    step,
    subscription,
)

OK, UNKNOWN_SERVER_ERROR, INVALID_REQUEST = 0, -1, 42
ILLEGAL_GENERATION, INCONSISTENT_GROUP_PROTOCOL, UNKNOWN_MEMBER_ID, REBALANCE_IN_PROGRESS = 22, 23, 25, 27
GROUP_ID_NOT_FOUND, MEMBER_ID_REQUIRED, GROUP_MAX_SIZE_REACHED, FENCED_INSTANCE_ID, UNRELEASED_INSTANCE_ID = 69, 79, 81, 82, 111
FIRST, SECOND = assignment(("t", 0), ("t", 1)), assignment(("t", 2), ("t", 3))
ALL = {("t", number) for number in range(4)}


def assigned(answer: Fields) -> ClassicAssignment:
    return decode_assignment(cast("bytes", answer["assignment"]))


def join_new(script: MigrationScript, member_id: str = "new", **fields: object) -> Fields:
    return script.beat(member_id, 0, subscribed_topic_names=("t",), **fields)


def written(script: MigrationScript, since: int) -> list[tuple[int, str, bool]]:
    """What was written: the type of each record, whom it is about, whether it deletes."""
    found = []
    for record in script.log[since:]:
        decoded = decode_record(record)
        key = decoded[0] if decoded is not None else ""
        name = key.name if isinstance(key, ConsumerKey) else ""
        found.append((int.from_bytes(record.key[:2], "big"), name, record.value is None))
    return found


# --- upgrade ------------------------------------------------------------------------------------------------------------------------------


def test_first_member_of_the_new_protocol_converts_a_live_classic_group() -> None:
    script = MigrationScript()
    one, two = script.classic_group(FIRST, SECOND)
    since = len(script.log)
    answer = join_new(script)
    assert (answer["error_code"], answer["member_epoch"]) == (OK, 2)
    assert script.member_types() == {one: 0, two: 0, "new": 1}
    records = written(script, since)
    assert records[:11] == [
        (2, "", True),
        (5, one, False), (5, two, False), (3, "", False), (7, one, False), (7, two, False), (6, "", False),
        (8, one, False), (8, two, False),
        (5, "new", False), (3, "", False),
    ]  # fmt: skip
    assert {kind for kind, _, _ in records[11:-2]} == {7}, "the new target of whoever gets another one"
    assert records[-2:] == [(6, "", False), (8, "new", False)]
    record = decode_record(script.log[since + 1])
    assert record == (
        ConsumerKey(ConsumerRecordType.MEMBER_METADATA, "g", one),
        MemberMetadata(
            None, None, "c", "/h", ("t",), "", REBALANCE_MS, None, ClassicProtocols(SESSION_MS, (("range", subscription("t")),))
        ),
    )


def test_classic_members_go_on_with_their_own_protocol() -> None:
    script = MigrationScript()
    one, two = script.classic_group(FIRST, SECOND)
    join_new(script)
    for member_id in (one, two):
        assert script.heartbeat(member_id, 1) == REBALANCE_IN_PROGRESS
        assert script.answers[script.sync(member_id, 1)]["error_code"] == REBALANCE_IN_PROGRESS
        joined = script.answers[script.join(member_id)]
        assert joined == {
            "error_code": OK, "generation_id": 2, "protocol_type": "consumer", "protocol_name": "range", "leader": "",
            "skip_assignment": False, "member_id": member_id, "members": [],
        }  # fmt: skip
        synced = script.answers[script.sync(member_id, 2, protocol_type="consumer", protocol_name="range")]
        assert (synced["error_code"], synced["protocol_type"], synced["protocol_name"]) == (OK, "consumer", "range")
        assert len(assigned(synced).partitions[0][1]) in (1, 2)
        assert script.heartbeat(member_id, 2) == OK


def test_whoever_waits_in_a_classic_group_is_sent_to_join_again() -> None:
    script = MigrationScript()
    one, two = script.classic_group(FIRST, SECOND)
    joining = script.join(one)
    join_new(script)
    assert (script.answers[joining]["error_code"], script.answers[joining]["member_id"]) == (REBALANCE_IN_PROGRESS, one)
    script = MigrationScript()
    one, two = script.classic_group(FIRST, SECOND)
    script.join(one)
    script.join(two)
    syncing = script.sync(two, 2)
    assert syncing not in script.answers
    join_new(script)
    assert script.answers[syncing]["error_code"] == REBALANCE_IN_PROGRESS


def test_group_that_has_no_generation_yet_is_converted_as_well() -> None:
    script = MigrationScript()
    waiter = script.join()
    answer = join_new(script)
    assert answer["error_code"] == OK
    assert script.answers[waiter]["error_code"] == REBALANCE_IN_PROGRESS
    member_id = str(script.answers[waiter]["member_id"])
    assert script.answers[script.join(member_id)]["error_code"] == OK
    assert script.member_types() == {member_id: 0, "new": 1}


def test_group_is_converted_while_its_members_agree_on_another_protocol() -> None:
    """The last generation used a protocol that the member which is joining does not have."""
    script = MigrationScript()
    both = (Protocol("range", subscription("t")), Protocol("roundrobin", subscription("t")))
    waiter = script.join(protocols=both)
    script.move(2 * DELAY_MS)
    one = str(script.answers[waiter]["member_id"])
    script.sync(one, 1, {one: FIRST})
    waiter = script.join(protocols=both[1:])
    assert script.kind == ("classic", "PreparingRebalance")
    assert join_new(script)["error_code"] == OK
    assert script.answers[waiter]["error_code"] == REBALANCE_IN_PROGRESS
    assert script.member_types() == {one: 0, str(script.answers[waiter]["member_id"]): 0, "new": 1}


@pytest.mark.parametrize("is_next_under_way", [False, True], ids=["the generation is complete", "the next one is under way"])
def test_member_that_has_not_heard_of_its_assignment_still_has_what_it_said(*, is_next_under_way: bool) -> None:
    """Its leader took a partition away from a cooperative member, which reads it until it is told: nobody else may have it so long."""
    script = MigrationScript()
    one, two = script.classic_group(FIRST, SECOND)
    joining = script.join()
    script.join(one, protocols=(Protocol("range", subscription("t", owned={("t", 0), ("t", 1)})),))
    script.join(two, protocols=(Protocol("range", subscription("t", owned={("t", 2), ("t", 3)})),))
    three = str(script.answers[joining]["member_id"])
    script.sync(three, 2)
    script.sync(one, 2, {one: FIRST, two: assignment(("t", 2)), three: assignment()})
    assert script.kind == ("classic", "Stable")
    if is_next_under_way:
        script.join(three)
    join_new(script)
    assert script.answers[script.sync(two, 2)]["error_code"] == REBALANCE_IN_PROGRESS
    ((_, held),) = script.held_by(two)
    assert held == (2, 3)
    script.join(three)
    assert all(3 not in numbers for _, numbers in assigned(script.answers[script.sync(three, 3)]).partitions)
    script.join(two)
    ((_, held),) = script.held_by(two)
    assert len(held) == 1, "it has given everything up, and gets its share"


def test_unreadable_protocol_fails_its_own_member_only() -> None:
    """The members agreed on another one, but in a group of the new protocol everybody is answered in its own first one."""
    script = MigrationScript()
    unreadable = (Protocol("own", b"\xff\xff"), Protocol("range", subscription("t")))
    waiters = [script.join(instance_id="i"), script.join(protocols=unreadable)]
    script.move(2 * DELAY_MS)
    one, two = (str(script.answers[waiter]["member_id"]) for waiter in waiters)
    script.sync(two, 1)
    script.sync(one, 1, {one: FIRST, two: SECOND}, instance_id="i")
    assert join_new(script, instance_id="i")["error_code"] == OK
    assert script.answers[script.sync(two, 1)]["error_code"] == UNKNOWN_SERVER_ERROR


def test_positions_stay_through_every_conversion() -> None:
    script = MigrationScript()
    one, _ = script.classic_group(FIRST, SECOND)

    def commit(member_id: str, generation: int) -> object:
        topics = [TopicOffsets("t", None, [PartitionOffset(0, 7)])]
        answer = script.answer(CommitOffsets(group_id="g", member_id=member_id, generation_or_member_epoch=generation, topics=topics))
        return cast("list[dict[str, list[Fields]]]", answer["topics"])[0]["partitions"][0]["error_code"]

    def committed() -> object:
        topics = cast("list[dict[str, list[Fields]]]", script.coordinator.fetch_offsets("g", [("t", None, [0])])["topics"])
        return topics[0]["partitions"][0]["committed_offset"]

    assert commit(one, 1) == OK
    join_new(script)
    assert (committed(), commit(one, 1), commit(one, 2)) == (7, OK, ILLEGAL_GENERATION)
    assert script.coordinator.fetch_offsets("g", None, member_id=one, member_epoch=2)["error_code"] == ILLEGAL_GENERATION
    script.beat("new", -1)
    script.restart()
    assert (script.kind[0], committed()) == ("classic", 7)


@pytest.mark.parametrize(
    ("changes", "assignments"),
    [
        ({"protocol_type": "connect"}, (FIRST,)),
        ({"protocols": (Protocol("range", b"\xff"),)}, (FIRST,)),
        ({}, (b"\x00\x01\x00",)),
        ({}, (FIRST[:-4] + b"\x00\x00\x00\x01x",)),
    ],
    ids=["not consumers", "subscription nobody can read", "assignment nobody can read", "assignor with data of its own"],
)
def test_group_that_cannot_be_converted_stays_as_it_is(changes: dict[str, object], assignments: tuple[bytes, ...]) -> None:
    script = MigrationScript()
    waiter = script.join(**changes)  # type: ignore[arg-type]
    script.move(DELAY_MS)
    member_id = str(script.answers[waiter]["member_id"])
    script.sync(member_id, 1, {member_id: assignments[0]})
    since = len(script.log)
    assert join_new(script)["error_code"] == GROUP_ID_NOT_FOUND
    assert (script.kind, len(script.log)) == (("classic", "Stable"), since)
    assert script.heartbeat(member_id, 1) == OK


def test_heartbeat_that_is_refused_leaves_a_live_classic_group_as_it_was() -> None:
    script = MigrationScript(consumer_max_group_size=2)
    one, _ = script.classic_group(FIRST, SECOND)
    joining = script.join(one)
    since = len(script.log)
    assert join_new(script)["error_code"] == GROUP_MAX_SIZE_REACHED
    assert script.beat("new", 5)["error_code"] == GROUP_ID_NOT_FOUND
    assert (script.kind[0], len(script.log), joining in script.answers) == ("classic", since, False)


# --- downgrade ----------------------------------------------------------------------------------------------------------------------------


def test_group_is_classic_again_when_the_last_member_of_the_new_protocol_leaves() -> None:
    script = MigrationScript()
    one, two = script.classic_group(FIRST, SECOND)
    join_new(script)
    script.beat("other", 0, subscribed_topic_names=("t",))
    script.beat("new", -1)
    assert script.kind[0] == "consumer"
    since = len(script.log)
    script.beat("other", -1)
    assert script.kind == ("classic", "PreparingRebalance")
    names = (one, two, "other")
    assert written(script, since) == [
        *((8, name, True) for name in names), *((7, name, True) for name in names), (6, "", True), *((5, name, True) for name in names),
        (4, "", True), (3, "", True), (2, "", False),
    ]  # fmt: skip
    assert script.heartbeat(one, 4) == REBALANCE_IN_PROGRESS
    waiters = [script.join(one), script.join(two)]
    assert [(script.answers[waiter]["generation_id"], script.answers[waiter]["leader"]) for waiter in waiters] == [(5, one)] * 2


def test_members_of_both_protocols_that_go_at_once_are_one_change() -> None:
    script = MigrationScript()
    _, two = script.classic_group(FIRST, SECOND)
    join_new(script)
    script.move(SESSION_MS - 1)
    assert script.heartbeat(two, 1) == REBALANCE_IN_PROGRESS
    script.move(2)  # the session of the first classic member
    assert script.member_types() == {two: 0, "new": 1}
    for _ in range(5):
        script.move(SESSION_MS - 1)
        script.join(two)
        script.sync(two, 3)
    assert script.kind[0] == "classic", "the session of the member of the new protocol"


@pytest.mark.parametrize("how", ["leave", "operator", "session"])
def test_the_last_member_of_the_new_protocol_may_go_in_any_way(how: str) -> None:
    script = MigrationScript()
    one, _ = script.classic_group(FIRST, SECOND)
    join_new(script, instance_id="i")
    if how == "leave":
        script.beat("new", -1, instance_id="i")
    elif how == "operator":
        assert script.leave("", "i") == OK
    else:
        for _ in range(6):
            script.move(SESSION_MS - 1)
            generation = script.answers[script.join(one)]["generation_id"] if script.kind[0] == "consumer" else 0
            script.sync(one, cast("int", generation))
    assert script.kind[0] == "classic"


def test_timer_that_comes_late_converts_before_the_next_request_is_decided() -> None:
    """A request finds the last member of the new protocol overdue before the timer does: what follows must find the classic group."""
    script = MigrationScript()
    (one,) = script.classic_group(FIRST)
    join_new(script)
    generation = 0
    for _ in range(5):
        script.move(SESSION_MS - 1_100)
        generation = cast("int", script.answers[script.join(one)]["generation_id"])
        script.sync(one, generation)
    script.now_ms += 1_000
    script.heartbeat(one, generation)
    assert script.kind == ("classic", "PreparingRebalance")
    assert script.heartbeat(one, generation) == REBALANCE_IN_PROGRESS
    join_new(script, "late")
    known = script.kind[0], script.member_types()
    script.restart()
    assert (script.kind[0], script.member_types()) == known == ("consumer", {one: 0, "late": 1})


def test_group_of_classic_members_only_stays_if_there_is_no_way_back() -> None:
    script = MigrationScript(policy="upgrade")
    one, two = script.classic_group(FIRST, SECOND)
    join_new(script)
    script.beat("new", -1)
    assert script.member_types() == {one: 0, two: 0}
    assert script.answers[script.join(one)]["generation_id"] == 3
    script.restart()
    assert script.kind[0] == "consumer"


@pytest.mark.parametrize("policy", ["disabled", "downgrade"])
def test_classic_group_is_not_converted_where_the_policy_forbids(policy: str) -> None:
    script = MigrationScript(policy=policy)
    (one,) = script.classic_group(FIRST)
    answer = join_new(script)
    assert answer["error_code"] == GROUP_ID_NOT_FOUND
    assert answer["error_message"] == "Cannot upgrade classic group g to consumer group because online upgrade is disabled."
    assert script.heartbeat(one, 1) == OK


@pytest.mark.parametrize(("policy", "kind"), [("disabled", "consumer"), ("downgrade", "classic")])
def test_classic_member_may_join_a_group_of_the_new_protocol_whatever_the_policy(policy: str, kind: str) -> None:
    script = MigrationScript(policy=policy)
    join_new(script)
    joined = script.answers[script.join()]
    assert (joined["error_code"], joined["generation_id"]) == (OK, 2)
    script.beat("new", -1)
    assert script.kind[0] == kind


def test_classic_group_may_be_too_large_to_go_back() -> None:
    script = MigrationScript(max_group_size=1)
    join_new(script)
    for _ in range(2):
        assert script.answers[script.join()]["error_code"] == OK
    script.beat("new", -1)
    assert script.kind[0] == "consumer"


# --- classic requests in a group of the new protocol --------------------------------------------------------------------------------------


def test_new_classic_member_is_given_an_id_first() -> None:
    script = MigrationScript()
    join_new(script)
    first = script.answers[script.join(requires_known_member_id=True)]
    assert first["error_code"] == MEMBER_ID_REQUIRED
    assert script.member_types() == {"new": 1}
    joined = script.answers[script.join(str(first["member_id"]), requires_known_member_id=True)]
    assert (joined["error_code"], joined["member_id"]) == (OK, first["member_id"])


def test_classic_member_needs_a_protocol_that_all_classic_members_have() -> None:
    script = MigrationScript()
    join_new(script)
    script.join()
    other = (Protocol("roundrobin", subscription("t")),)
    assert script.answers[script.join(protocols=other)]["error_code"] == INCONSISTENT_GROUP_PROTOCOL
    assert script.answers[script.join(protocols=())]["error_code"] == INCONSISTENT_GROUP_PROTOCOL
    assert script.answers[script.join(protocol_type="connect")]["error_code"] == INCONSISTENT_GROUP_PROTOCOL
    assert script.answers[script.join(protocols=(Protocol("range", b""),))]["error_code"] == UNKNOWN_SERVER_ERROR


def test_only_members_of_the_classic_protocol_may_use_its_requests() -> None:
    script = MigrationScript()
    join_new(script)
    member_id = str(script.answers[script.join()]["member_id"])
    assert script.heartbeat("new", 1) == UNKNOWN_MEMBER_ID
    assert script.heartbeat("nobody", 1) == UNKNOWN_MEMBER_ID
    assert script.heartbeat(member_id, 1) == ILLEGAL_GENERATION
    assert script.answers[script.sync("new", 1)]["error_code"] == UNKNOWN_MEMBER_ID
    assert script.answers[script.sync(member_id, 9)]["error_code"] == ILLEGAL_GENERATION
    assert script.answers[script.sync(member_id, 2, protocol_name="other")]["error_code"] == INCONSISTENT_GROUP_PROTOCOL
    assert script.answers[script.sync(member_id, 2, protocol_type="connect")]["error_code"] == INCONSISTENT_GROUP_PROTOCOL


def test_classic_member_that_does_not_join_in_time_is_fenced() -> None:
    script = MigrationScript()
    one, two = script.classic_group(FIRST, SECOND)
    join_new(script)
    for _ in range(REBALANCE_MS // 5_000):
        assert [script.heartbeat(member_id, 1) for member_id in (one, two)] == [REBALANCE_IN_PROGRESS] * 2
        script.beat("new", 2)
        script.move(5_000)
    assert script.member_types() == {"new": 1}


def test_classic_member_that_does_not_ask_for_its_assignment_in_time_is_fenced() -> None:
    script = MigrationScript()
    join_new(script)
    member_id = str(script.answers[script.join()]["member_id"])
    for _ in range(REBALANCE_MS // 5_000):
        assert script.heartbeat(member_id, 2) in (OK, REBALANCE_IN_PROGRESS)
        script.beat("new", 1)
        script.move(5_000)
    assert script.member_types() == {"new": 1}


def test_member_gives_up_before_another_one_gets() -> None:
    """The new member waits for the classic ones, and the other way round."""
    script = MigrationScript(topics={"t": 2})
    (one,) = script.classic_group(assignment(("t", 0), ("t", 1)))
    new = Client(script, "new", "t")
    new.beat()
    assert new.owned == set()
    # Cooperative: it says that it still has both, is told to give one up, and joins once more when it has.
    both = subscription("t", owned={("t", 0), ("t", 1)})
    joined = script.answers[script.join(one, protocols=(Protocol("range", both),))]
    assert joined["generation_id"] == 1, "it stays where it is until it has given up"
    kept = assigned(script.answers[script.sync(one, 1)]).partitions
    assert [len(numbers) for _, numbers in kept] == [1]
    assert script.heartbeat(one, 1) == REBALANCE_IN_PROGRESS
    new.beat()
    assert new.owned == set()
    (number,) = kept[0][1]
    script.join(one, protocols=(Protocol("range", subscription("t", owned={("t", number)})),))
    assert script.heartbeat(one, 2) == OK
    new.beat()
    assert new.owned == {("t", 1 - number)}


def test_classic_member_rejoins_when_what_it_waits_for_is_free() -> None:
    script = MigrationScript(topics={"t": 2})
    new = Client(script, "new", "t")
    new.beat()
    assert new.owned == {("t", 0), ("t", 1)}
    member_id = str(script.answers[script.join()]["member_id"])
    assert assigned(script.answers[script.sync(member_id, 2)]).partitions == ()
    assert script.heartbeat(member_id, 2) == OK, "nothing is free yet"
    new.beat()
    new.beat()
    assert script.heartbeat(member_id, 2) == REBALANCE_IN_PROGRESS
    script.join(member_id)
    ((_, numbers),) = assigned(script.answers[script.sync(member_id, 2)]).partitions
    assert {("t", number) for number in numbers} | new.owned == {("t", 0), ("t", 1)}


# --- whole migrations ---------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_cooperative", [False, True], ids=["eager", "cooperative"])
@pytest.mark.parametrize("restarts", [False, True], ids=["", "with restarts"])
def test_rolling_upgrade_and_downgrade_read_everything_at_every_step(*, is_cooperative: bool, restarts: bool) -> None:
    script = MigrationScript(topics={"t": 6})
    old: list[Client | ClassicClient] = [ClassicClient(script, "t", is_cooperative=is_cooperative) for _ in range(3)]
    settle(old, script)
    new: list[Client | ClassicClient] = []
    for number in range(3):
        cast("ClassicClient", old.pop()).leave()
        new.append(Client(script, f"new-{number}", "t"))
        step([*old, *new], script)
        if restarts:
            script.restart()
        settle([*old, *new], script)
        assert script.kind[0] == "consumer"
    for _ in range(3):
        cast("Client", new.pop()).leave()
        old.append(ClassicClient(script, "t", is_cooperative=is_cooperative))
        step([*old, *new], script)
        if restarts:
            script.restart()
        settle([*old, *new], script)
    assert script.kind == ("classic", "Stable")


def test_subscription_that_is_too_large_is_refused_before_it_is_read() -> None:
    """Reading it takes seconds in which nobody else is answered. This one could not be read, and nobody notices."""
    large = (Protocol("range", b"\xff" * 400_001),)
    script = MigrationScript(max_batch_bytes=400_000)
    join_new(script)
    assert script.answers[script.join(protocols=large)]["error_code"] == INVALID_REQUEST
    script = MigrationScript(max_batch_bytes=400_000)
    script.join(protocols=large)
    answer = join_new(script)
    assert answer["error_code"] == GROUP_ID_NOT_FOUND
    assert "too large" in str(answer["error_message"])


def test_subscription_that_does_not_fit_into_a_record_is_refused() -> None:
    """A record that cannot be written would take the coordinator down."""
    script = MigrationScript(max_batch_bytes=400_000)
    join_new(script)
    since = len(script.log)
    large = tuple(Protocol(f"p{number}", subscription("t") + bytes(150_000)) for number in range(3))
    assert script.answers[script.join(protocols=large)]["error_code"] == INVALID_REQUEST
    assert len(script.log) == since
    assert script.answers[script.join(protocols=large[:2])]["error_code"] == OK
