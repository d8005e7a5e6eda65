import pytest

from millstream.errors import FencedInstanceId, UnknownMemberId
from millstream.groups.classic.member import ClassicMember
from millstream.groups.classic.roster import ClassicRoster
from millstream.groups.commands import Protocol


def protocols(*names: str) -> tuple[Protocol, ...]:
    return tuple(Protocol(name, name.encode()) for name in names)


def roster(*members: tuple[str, str | None, tuple[str, ...]]) -> ClassicRoster:
    made = ClassicRoster()
    for member_id, instance_id, names in members:
        made.add(ClassicMember(member_id, instance_id, client_id="c", client_host="/h", protocols=protocols(*names)))
    return made


def test_the_first_member_leads_and_the_next_one_after_it() -> None:
    made = roster(("a", None, ("x",)), ("b", None, ("x",)))
    assert made.leader == "a"
    made.remove("a")
    assert made.leader == "b"
    made.remove("b")
    assert made.leader is None


def test_only_protocols_of_all_members_are_chosen() -> None:
    made = roster(("a", None, ("x", "y")), ("b", None, ("y", "x")), ("c", None, ("z", "y")))
    assert made.choose_protocol() == "y"
    assert made.can_agree_with(protocols("y"))
    assert not made.can_agree_with(protocols("x", "z"))
    made.remove("c")
    assert made.can_agree_with(protocols("x"))


def test_a_protocol_named_twice_counts_once() -> None:
    made = roster(("a", None, ("x", "x")), ("b", None, ("y",)))
    assert not made.can_agree_with(protocols("x"))


def test_a_member_is_checked_by_its_instance_id_first() -> None:
    made = roster(("a", "one", ("x",)))
    assert made.check("a", "one") is made.check("a", None)
    with pytest.raises(FencedInstanceId):
        made.check("b", "one")
    with pytest.raises(UnknownMemberId):
        made.check("a", "two")
    with pytest.raises(UnknownMemberId):
        made.check("b", None)


def test_a_renamed_member_keeps_its_place_and_its_lead() -> None:
    made = roster(("a", "one", ("x",)), ("b", None, ("x",)))
    made.rename(made.check("a", "one"), member_id="c")
    assert [member.member_id for member in made] == ["c", "b"]
    assert made.leader == "c"
    assert made.member_of_instance("one") is made.get("c")
    assert "a" not in made


def test_a_leader_that_did_not_join_is_replaced_by_one_that_did() -> None:
    made = roster(("a", None, ("x",)), ("b", None, ("x",)))
    assert not made.elect_joined_leader()
    made.check("b", None).join_waiter = "waiter"
    assert made.elect_joined_leader()
    assert made.leader == "b"


def test_a_member_expected_back_keeps_the_barrier_closed() -> None:
    made = roster(("a", None, ("x",)))
    made.check("a", None).join_waiter = "waiter"
    seen = [made.have_all_joined]
    made.pending["b"] = 5
    seen.append(made.have_all_joined)
    made.remove("b")
    assert [*seen, made.have_all_joined] == [True, False, True]
