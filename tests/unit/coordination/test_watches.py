from penstock.coordination.interface import WatchEvent, WatchKind
from penstock.coordination.watches import WatchTable


def test_a_deletion_calls_a_watcher_of_data_and_children_once() -> None:
    table, seen = WatchTable(), list[WatchEvent]()
    table.add_data_watch("/a", seen.append)
    table.add_child_watch("/a", seen.append)
    table.trigger(WatchEvent(WatchKind.DELETED, "/a"))
    assert seen == [WatchEvent(WatchKind.DELETED, "/a")]
    assert len(table) == 0


def test_a_change_of_data_leaves_the_watch_on_children() -> None:
    table, data, children = WatchTable(), list[WatchEvent](), list[WatchEvent]()
    table.add_data_watch("/a", data.append)
    table.add_child_watch("/a", children.append)
    table.trigger(WatchEvent(WatchKind.CHANGED, "/a"))
    table.trigger(WatchEvent(WatchKind.CHANGED, "/a"))
    assert (len(data), len(children), len(table)) == (1, 0, 1)
    table.trigger(WatchEvent(WatchKind.CHILDREN, "/a"))
    assert (len(data), len(children), len(table)) == (1, 1, 0)


def test_a_watcher_that_left_is_not_called_and_leaves_nothing_behind() -> None:
    table, seen, others = WatchTable(), list[WatchEvent](), list[WatchEvent]()
    for path in ("/a", "/b"):
        table.add_data_watch(path, seen.append)
        table.add_child_watch(path, seen.append)
    table.add_data_watch("/a", others.append)
    table.forget(seen.append)
    table.trigger(WatchEvent(WatchKind.CHANGED, "/a"))
    assert (len(seen), len(others), len(table), table.count_of(seen.append)) == (0, 1, 0, 0)


def test_a_watcher_may_watch_again_while_it_is_called() -> None:
    table, seen = WatchTable(), list[WatchEvent]()

    def again(event: WatchEvent) -> None:
        seen.append(event)
        table.add_data_watch("/a", again)

    table.add_data_watch("/a", again)
    for _ in range(3):
        table.trigger(WatchEvent(WatchKind.CHANGED, "/a"))
    assert len(seen) == 3
    assert table.count_of(again) == 1
