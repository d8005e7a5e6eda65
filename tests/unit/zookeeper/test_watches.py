from millstream.zookeeper.acl import OPEN_TO_ALL, Acl
from millstream.zookeeper.watches import WatchEvent, WatchKind, WatchTable


class Seen(list[WatchEvent]):
    """A watcher that remembers."""

    def note(self, event: WatchEvent, _acl: Acl) -> None:
        self.append(event)


def test_a_deletion_calls_a_watcher_of_data_and_children_once() -> None:
    table, seen = WatchTable(), Seen()
    table.add_data_watch("/a", seen.note)
    table.add_child_watch("/a", seen.note)
    table.trigger(WatchEvent(WatchKind.DELETED, "/a"), OPEN_TO_ALL)
    assert seen == [WatchEvent(WatchKind.DELETED, "/a")]
    assert len(table) == 0


def test_a_change_of_data_leaves_the_watch_on_children() -> None:
    table, data, children = WatchTable(), Seen(), Seen()
    table.add_data_watch("/a", data.note)
    table.add_child_watch("/a", children.note)
    table.trigger(WatchEvent(WatchKind.CHANGED, "/a"), OPEN_TO_ALL)
    table.trigger(WatchEvent(WatchKind.CHANGED, "/a"), OPEN_TO_ALL)
    assert (len(data), len(children), len(table)) == (1, 0, 1)
    table.trigger(WatchEvent(WatchKind.CHILDREN, "/a"), OPEN_TO_ALL)
    assert (len(data), len(children), len(table)) == (1, 1, 0)


def test_a_watcher_that_left_is_not_called_and_leaves_nothing_behind() -> None:
    table, seen, others = WatchTable(), Seen(), Seen()
    for path in ("/a", "/b"):
        table.add_data_watch(path, seen.note)
        table.add_child_watch(path, seen.note)
    table.add_data_watch("/a", others.note)
    table.forget(seen.note)
    table.trigger(WatchEvent(WatchKind.CHANGED, "/a"), OPEN_TO_ALL)
    assert (len(seen), len(others), len(table), table.count_of(seen.note)) == (0, 1, 0, 0)


def test_a_watcher_may_watch_again_while_it_is_called() -> None:
    table, seen = WatchTable(), Seen()

    def again(event: WatchEvent, _acl: Acl) -> None:
        seen.append(event)
        table.add_data_watch("/a", again)

    table.add_data_watch("/a", again)
    for _ in range(3):
        table.trigger(WatchEvent(WatchKind.CHANGED, "/a"), OPEN_TO_ALL)
    assert len(seen) == 3
    assert table.count_of(again) == 1
