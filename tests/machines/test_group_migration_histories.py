"""Random histories of groups that migrate: members of both protocols come, go, fall silent, and the broker is killed in between.

At every moment no partition has two owners; when everybody is left in peace everything is read by somebody; and a broker that starts with
the log knows what the one knew that wrote it.
"""

import random
from itertools import count

import pytest

from millstream.coordinator_shard import Fields
from tests.machines.consumer_group_script import Client
from tests.machines.migration_script import ClassicClient, MigrationScript, check, settle, step

STEPS = 40
MOST_MEMBERS = 5


class History:
    """One random life of a group."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.is_cooperative = self.random.random() < 0.5
        policy = self.random.choice(["bidirectional", "bidirectional", "upgrade", "downgrade", "disabled"])
        self.script = MigrationScript(policy=policy, topics={"t": 5, "u": 2})
        self.clients: list[Client | ClassicClient] = []
        self._ids = count()

    def act(self) -> None:
        """Something happens."""
        choice = self.random.random()
        if choice < 0.2 and len(self.clients) < MOST_MEMBERS:
            self.clients.append(self._newcomer())
        elif choice < 0.3 and len(self.clients) > 1:
            self.clients.pop(self.random.randrange(len(self.clients))).leave()
        elif choice < 0.35:
            self.script.restart()
        elif choice < 0.4:
            self._wait(self.random.choice([1_000, 11_000, 31_000, 61_000]))
        elif self.clients:
            client = self.random.choice(self.clients)
            if isinstance(client, Client):
                client.beat()
            else:
                client.step()
            self.script.move(1)
        check(self.clients, self.script)

    def _newcomer(self) -> Client | ClassicClient:
        topics = self.random.choice([("t",), ("t", "u")])
        instance = f"i{len(self.clients)}" if self.random.random() < 0.3 and not self._has_instance(f"i{len(self.clients)}") else None
        if self.random.random() < 0.5:
            return ClassicClient(self.script, *topics, is_cooperative=self.is_cooperative, instance_id=instance)
        return Client(self.script, f"new-{next(self._ids)}", *topics, instance_id=instance)

    def _has_instance(self, instance: str) -> bool:
        return any(client.instance_id == instance for client in self.clients)

    def _wait(self, by_ms: int) -> None:
        """Some members go on as always, the others are not heard of for a while."""
        heard = [client for client in self.clients if self.random.random() < 0.5]
        for _ in range(by_ms // 1_000):
            for client in self.clients:
                if client not in heard:
                    client.wait(1_000)
            self.script.move(1_000)
            step(heard, self.script)
            check(self.clients, self.script)

    def knowledge(self) -> list[Fields]:
        """What the coordinator tells of the group."""
        coordinator = self.script.coordinator
        shown = [coordinator.describe_consumer("g"), coordinator.describe("g")]
        return [{name: value for name, value in fields.items() if name != "group_state"} for fields in shown]


@pytest.mark.parametrize("seed", range(60))
def test_no_history_gives_a_partition_to_two_members_or_to_none(seed: int) -> None:
    history = History(seed)
    for _ in range(STEPS):
        history.act()
    script = history.script
    if not any("u" in client.topics for client in history.clients):
        history.clients.append(Client(script, "last", "t", "u"))
    script.move(61_000)
    for client in history.clients:
        client.abandon()
    is_refused = script.settings.consumer_migration_policy in ("disabled", "downgrade") and len({type(one) for one in history.clients}) > 1
    if is_refused:  # a live classic group takes no member of the new protocol in
        history.clients = [client for client in history.clients if isinstance(client, Client)]
        history.clients = history.clients or [Client(script, "alone", "t", "u")]
        history.clients[0].topics = ("t", "u")
    settle(history.clients, script)
    known = history.knowledge()
    script.restart()
    assert history.knowledge() == known
