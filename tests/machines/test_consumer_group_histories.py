"""Whatever happens to a KIP-848 group, in whatever order: no partition is ever with two members, and in the end all is fairly shared."""

from collections import Counter

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.machines.consumer_group_script import Client, Script, settle, snapshot

NAMES = ("alpha", "beta", "gamma")
picks = st.integers(0, 10**6)
subscriptions = st.lists(st.sampled_from(NAMES), min_size=1, max_size=3, unique=True).map(tuple)


class Histories(RuleBasedStateMachine):
    """Clients that join, leave, crash, lose answers, change their minds; topics that come, grow and go; a broker that restarts."""

    def __init__(self) -> None:
        super().__init__()
        self.counts = {"alpha": 3}
        self.script = Script(alpha=3)
        self.clients: list[Client] = []
        self.made = 0
        self.epochs = (0, 0)
        self.member_epochs: dict[str, int] = {}

    @initialize(assignor=st.sampled_from(["uniform", "range"]))
    def choose(self, assignor: str) -> None:
        other = "range" if assignor == "uniform" else "uniform"
        self.script = Script(settings=type(self.script.settings)(consumer_assignors=(assignor, other)), **self.counts)

    def _client(self, pick: int) -> Client:
        return self.clients[pick % len(self.clients)]

    @rule(topics=subscriptions, static=st.booleans(), pattern=st.sampled_from([None, None, "a.*", "[ab].*"]))
    @precondition(lambda self: len(self.clients) < 6)
    def join(self, topics: tuple[str, ...], *, static: bool, pattern: str | None) -> None:
        self.made += 1
        client = Client(self.script, f"m{self.made}", *topics, instance_id=f"i{self.made}" if static else None, regex=pattern)
        assert client.beat()["error_code"] == 0
        self.clients.append(client)

    @rule(pick=picks)
    @precondition(lambda self: self.clients)
    def beat(self, pick: int) -> None:
        self._client(pick).beat()

    @rule(pick=picks)
    @precondition(lambda self: self.clients)
    def beat_slowly(self, pick: int) -> None:
        self._client(pick).beat(is_slow=True)

    @rule(pick=picks)
    @precondition(lambda self: self.clients)
    def beat_and_lose_the_answer(self, pick: int) -> None:
        self._client(pick).beat(loses_answer=True)

    @rule(pick=picks, topics=subscriptions)
    @precondition(lambda self: self.clients)
    def subscribe(self, pick: int, topics: tuple[str, ...]) -> None:
        self._client(pick).subscribe(*topics)

    @rule(pick=picks)
    @precondition(lambda self: self.clients)
    def leave(self, pick: int) -> None:
        client = self._client(pick)
        self.clients.remove(client)
        client.leave()

    @rule(pick=picks)
    @precondition(lambda self: self.clients)
    def crash(self, pick: int) -> None:
        """The process is gone: what it had is read by nobody, whatever the coordinator believes."""
        self.clients.remove(self._client(pick))

    @rule(pick=picks)
    @precondition(lambda self: any(client.instance_id and client.epoch > 0 for client in self.clients))
    def bounce(self, pick: int) -> None:
        """A static member restarts with another member id."""
        static = [client for client in self.clients if client.instance_id and client.epoch > 0]
        client = static[pick % len(static)]
        if client.leave(-2)["error_code"] == 0:
            self.made += 1
            self.clients.remove(client)
            returned = Client(self.script, f"m{self.made}", *client.topics, instance_id=client.instance_id, regex=client.regex)
            self.clients.append(returned)
            assert returned.beat()["error_code"] == 0

    @rule(name=st.sampled_from(NAMES), count=st.integers(0, 5))
    def change_topic(self, name: str, count: int) -> None:
        if count == 0:
            self.counts.pop(name, None)
            for client in self.clients:
                client.lose_topic(name)
        elif count >= self.counts.get(name, 0):
            self.counts[name] = count
        self.script.topics(**self.counts)

    @rule(by_ms=st.sampled_from([1_000, 20_000, 46_000]))
    def wait(self, by_ms: int) -> None:
        for client in self.clients:
            client.wait(by_ms)
        self.script.advance(by_ms)

    @rule()
    def restart(self) -> None:
        self.script.restart()

    @rule()
    @precondition(lambda self: self.clients)
    def converge(self) -> None:
        self.script.advance(46_000)
        for client in self.clients:
            client.abandon()
        settle(*self.clients)
        target = self.script.group._state.target
        read = Counter(partition for client in self.clients for partition in client.owned)
        wanted = {name for client in self.clients for name in self._wanted(client) if name in self.counts}
        assert read == Counter((name, number) for name in wanted for number in range(self.counts[name]))
        assert set(target) <= {client.member_id for client in self.clients}
        assignor = self.script.group.describe_consumer()["assignor_name"]
        if len({self._wanted(client) for client in self.clients}) == 1 and assignor == "uniform":
            sizes = [len(client.owned) for client in self.clients]
            assert max(sizes) - min(sizes) <= 1

    def _wanted(self, client: Client) -> frozenset[str]:
        matched = {name for name in self.counts if client.regex and name[0] in ("a" if client.regex == "a.*" else "ab")}
        return frozenset(client.topics) | matched

    @invariant()
    def no_partition_is_with_two_members(self) -> None:
        read = Counter(partition for client in self.clients for partition in client.owned)
        assert all(count == 1 for count in read.values()), read
        owners = Counter(
            (topic, number)
            for member in self.script.group._state.members.values()
            for partitions in (member.current.assigned, member.current.pending_revocation)
            for topic, numbers in partitions
            for number in numbers
        )
        assert all(count == 1 for count in owners.values()), owners

    @invariant()
    def epochs_never_go_back(self) -> None:
        state = self.script.group._state
        assert state.target_epoch <= state.epoch
        assert self.epochs <= (state.epoch, state.target_epoch)
        self.epochs = (state.epoch, state.target_epoch)
        for member_id, member in state.members.items():
            epoch = member.current.member_epoch
            assert epoch <= state.target_epoch
            assert epoch == -2 or epoch >= self.member_epochs.get(member_id, 0)
            self.member_epochs[member_id] = max(epoch, 0)

    @invariant()
    def replay_of_the_compacted_log_is_the_state(self) -> None:
        assert snapshot(self.script.replayed()) == snapshot(self.script.group)


Histories.TestCase.settings = settings(max_examples=80, stateful_step_count=30)
TestHistories = Histories.TestCase
