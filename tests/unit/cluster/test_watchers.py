from millstream.cluster.watchers import Watchers
from tests.unit.cluster.hosting import RecordingWatcher


def test_watcher_is_called_once_when_there_is_something_to_read_and_registers_again() -> None:
    watchers, follower, consumer = Watchers(), RecordingWatcher(), RecordingWatcher()
    watchers.add(follower, is_replica=True)
    watchers.add(consumer, is_replica=False)
    watchers.appended()
    watchers.appended()
    assert (follower.calls, consumer.calls, len(watchers)) == (["moved"], [], 1)
    watchers.committed()
    watchers.committed()
    assert (follower.calls, consumer.calls, len(watchers)) == (["moved"], ["moved"], 0)


def test_what_is_only_to_be_mentioned_leaves_watchers_registered() -> None:
    watchers, follower, consumer = Watchers(), RecordingWatcher(), RecordingWatcher()
    watchers.add(follower, is_replica=True)
    watchers.committed()
    watchers.add(consumer, is_replica=False)
    watchers.noted()
    assert (follower.calls, consumer.calls, len(watchers)) == (["marked"] * 2, ["marked"], 2)
    watchers.changed()
    assert (follower.calls[-1], consumer.calls[-1], len(watchers)) == ("moved", "moved", 0)


def test_removed_watcher_is_not_called() -> None:
    watchers, watcher = Watchers(), RecordingWatcher()
    for is_replica in (True, False):
        watchers.add(watcher, is_replica=is_replica)
        watchers.remove(watcher)
        watchers.remove(watcher)
    watchers.changed()
    assert watcher.calls == []
