import pytest

from millstream.cli.cluster.planning.plan import DiskMove, Move
from millstream.cli.cluster.throttle import DISK_RATE, EVERY_REPLICA, left_by_moves, parse_rate, throttled, unthrottled
from millstream.client.admin.config_admin import BROKER, TOPIC, Resource
from millstream.client.admin.disk_admin import Replica
from millstream.errors import UsageError
from millstream.topic_partition import TopicPartition

LEADERS, FOLLOWERS = "leader.replication.throttled", "follower.replication.throttled"


@pytest.mark.parametrize(
    ("text", "rate"),
    [("1000", 1000), ("50MB", 50_000_000), ("50mb/s", 50_000_000), ("1.5 MiB/s", 1_572_864), ("2k", 2000), ("1G", 10**9), ("3KiB", 3072)],
)
def test_a_rate_is_written_as_people_do(text: str, rate: int) -> None:
    assert parse_rate(text) == rate


@pytest.mark.parametrize("text", ["", "fast", "0", "-5MB", "5x", "0.1", "1e9", "9223372036854775807", "9" * 400])
def test_what_is_no_rate_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="expected bytes a second"):
        parse_rate(text)


def test_sources_are_throttled_as_leaders_and_new_replicas_as_followers() -> None:
    moves = [
        Move(TopicPartition("t", 0), (1, 2), (2, 3), 5),
        Move(TopicPartition("t", 1), (9,), (1,), 5),
        Move(TopicPartition("u", 0), (1, 2), (2, 1), 5),
    ]
    options = throttled(moves, [], 1000, [1, 2, 3, 4])
    rates = {f"{LEADERS}.rate": "1000", f"{FOLLOWERS}.rate": "1000"}
    assert options == {
        Resource(TOPIC, "t"): {f"{LEADERS}.replicas": "0:1,0:2,1:9", f"{FOLLOWERS}.replicas": "0:3,1:1"},
        **{Resource(BROKER, str(broker)): rates for broker in (1, 2, 3)},
    }
    removed = unthrottled(options)
    assert removed.keys() == options.keys()
    assert all(value is None for values in removed.values() for value in values.values())
    assert {name for values in removed.values() for name in values} == {name for values in options.values() for name in values}


def test_a_list_that_is_too_long_for_old_protocols_is_every_replica() -> None:
    moves = [Move(TopicPartition("t", number), (1, 2, 3), (4, 5, 6), 5) for number in range(5000)]
    assert throttled(moves, [], 1000, [])[Resource(TOPIC, "t")] == dict.fromkeys(
        [f"{LEADERS}.replicas", f"{FOLLOWERS}.replicas"], EVERY_REPLICA
    )


def test_what_moves_between_disks_has_a_rate_of_its_own() -> None:
    place = TopicPartition("t", 0)
    disk_moves = [DiskMove(Replica(broker, place), "/a", "/b", 5) for broker in (1, 3, 9)]
    options = throttled([Move(place, (1,), (1, 2), 5)], disk_moves, 1000, [1, 2, 3])
    assert options[Resource(BROKER, "1")] == {f"{LEADERS}.rate": "1000", f"{FOLLOWERS}.rate": "1000", DISK_RATE: "1000"}
    assert DISK_RATE not in options[Resource(BROKER, "2")]
    assert options[Resource(BROKER, "3")] == {DISK_RATE: "1000"}
    assert Resource(BROKER, "9") not in options
    # An option that was not set by the plan is left alone: it may be somebody's own.
    assert unthrottled(options)[Resource(BROKER, "3")] == {DISK_RATE: None}


def test_what_names_replicas_was_set_by_a_move_and_what_names_all_by_a_person() -> None:
    moved, mine, broker = Resource(TOPIC, "moved"), Resource(TOPIC, "mine"), Resource(BROKER, "1")
    named = {f"{LEADERS}.replicas": "0:1", f"{FOLLOWERS}.replicas": "0:2"}
    throttles = {moved: named, broker: {f"{LEADERS}.rate": "1000"}}
    assert left_by_moves(throttles, moving=()) == {moved: [*named], broker: [f"{LEADERS}.rate"]}
    throttles[mine] = {f"{LEADERS}.replicas": EVERY_REPLICA}
    assert list(left_by_moves(throttles, moving=())) == [moved], "what is throttled for good needs the rates"
    assert list(left_by_moves(throttles, moving=["mine"])) == [moved, broker, mine], "a long list is written so, too"


def test_the_rate_of_disks_is_removed_with_the_rest_and_is_not_needed_by_what_is_throttled_for_good() -> None:
    mine, both, disks = Resource(TOPIC, "mine"), Resource(BROKER, "1"), Resource(BROKER, "2")
    throttles = {both: {f"{LEADERS}.rate": "1000", DISK_RATE: "1000"}, disks: {DISK_RATE: "1000"}}
    assert left_by_moves(throttles, moving=()) == {both: [f"{LEADERS}.rate", DISK_RATE], disks: [DISK_RATE]}
    throttles[mine] = {f"{FOLLOWERS}.replicas": EVERY_REPLICA}
    assert left_by_moves(throttles, moving=()) == {both: [DISK_RATE], disks: [DISK_RATE]}
