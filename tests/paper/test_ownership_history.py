"""Claims 17, 20 and 25, from the history of the znodes: one owner per partition at any moment, and offsets that only owners move, forwards.

On embedded coordination and on a real ZooKeeper.
"""

import re

from tests.paper.sites import Site, fresh_group, wait_for_all
from tests.paper.test_consumer_changes import Sender
from tests.waiting import wait_until


def test_a_partition_has_one_owner_at_any_moment_and_only_the_owner_moves_its_offset(own_site: Site) -> None:
    topic, group, count = own_site.topic(6), fresh_group(), 6
    sender = Sender(own_site, topic, count)
    readers = []
    for name in ("a", "c", "b"):
        readers.append(own_site.reader(group, topic, consumer_id=name))
        wait_until(lambda: all(reader.partitions for reader in readers), "everybody has a share")
    readers[1].close()
    wait_until(lambda: len(own_site.owners(group, topic)) == count, "every partition is owned again")
    # An owner that dies: what a session leaves behind is removed with it.
    own_site.tree.delete(f"/consumers/{group}/ids/a")
    wait_until(lambda: own_site.tree.exists(f"/consumers/{group}/ids/a"), "it is back in the group")
    sent = sender.stop()
    assert wait_for_all(sent, *readers) == list(range(sent))
    for reader in readers:
        reader.close()
    owners, stored, changes = replay(own_site, group, topic)
    assert owners == {}
    assert sum(stored.values()) >= sent - len(readers)
    assert changes > count


def replay(site: Site, group: str, topic: str) -> tuple[dict[int, int], dict[int, int], int]:
    """Go through the history; returns who owns what at its end, the offsets, and how often a partition got an owner."""
    pattern = re.compile(rf"/consumers/{group}/(owners|offsets)/{topic}/(\d+)")
    owners: dict[int, int] = {}
    stored: dict[int, int] = {}
    changes = 0
    for transaction in site.history():
        for kind, path, data, session in transaction:
            found = pattern.fullmatch(path)
            if kind == "session ended":
                owners = {partition: owner for partition, owner in owners.items() if owner != session}
            if found is None:
                continue
            partition = int(found[2])
            if found[1] == "offsets":
                assert partition in owners, f"the offset of {partition} was moved while it had no owner"
                assert int(data) >= stored.get(partition, 0), f"the offset of {partition} went back"
                stored[partition] = int(data)
            elif kind == "created":
                assert partition not in owners, f"{partition} got a second owner"
                assert session != 0, "an owner that is not ephemeral"
                owners[partition] = session
                changes += 1
            elif kind == "deleted":
                owners.pop(partition, None)
    return owners, stored, changes
