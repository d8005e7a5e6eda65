"""Fetch sessions against a model: a dictionary of what each client wants, and the rules of KIP-227 in a few lines."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from millstream.broker.handlers.fetch.fetch_sessions import FetchSession, FetchSessions
from millstream.errors import FetchSessionIdNotFound, InvalidFetchSessionEpoch, KafkaError
from tests.unit.broker.handlers.fetch.test_fetch_sessions import request

MAX_SESSIONS = 3
MIN_IDLE_MS = 50
CLIENTS = st.integers(0, 4)
WANTED = st.dictionaries(st.sampled_from("ab"), st.dictionaries(st.integers(0, 3), st.integers(0, 99), min_size=1, max_size=4), max_size=2)
FORGOTTEN = st.dictionaries(st.sampled_from("ab"), st.lists(st.integers(0, 3), max_size=3), max_size=2)


class Model:
    """What a broker should know about one session."""

    def __init__(self, session_id: int, wanted: dict[tuple[str, int], int], now_ms: int) -> None:
        self.session_id = session_id
        self.next_epoch = 1
        self.wanted = wanted
        self.used_ms = now_ms


def flat(wanted: dict[str, dict[int, int]]) -> dict[tuple[str, int], int]:
    return {(topic, index): offset for topic, partitions in wanted.items() for index, offset in partitions.items()}


def content(session: FetchSession) -> dict[tuple[object, int], int]:
    return {(wanted.topic, wanted.index): wanted.fetch_offset for wanted in session.due()}


class Sessions(RuleBasedStateMachine):
    """Clients that begin, continue, forget, repeat and end, in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.sessions = FetchSessions(max_sessions=MAX_SESSIONS, min_idle_ms=MIN_IDLE_MS)
        self.now_ms = 0
        self.clients: dict[int, Model | None] = {}
        self.known: dict[int, Model] = {}

    def begin(self, *arguments: int, wanted: dict[str, dict[int, int]], forgotten: dict[str, list[int]] | None = None) -> FetchSession:
        asked = request(*arguments, wanted=wanted, forgotten=forgotten)
        return self.sessions.begin(asked, version=12, now_ms=self.now_ms)

    @rule(milliseconds=st.integers(1, 80))
    def time_passes(self, milliseconds: int) -> None:
        self.now_ms += milliseconds

    @rule(client=CLIENTS, wanted=WANTED)
    def start(self, client: int, wanted: dict[str, dict[int, int]]) -> None:
        old = self.clients.get(client)
        session = self.begin(old.session_id if old else 0, 0, wanted=wanted)
        if old:
            self.known.pop(old.session_id, None)
        assert content(session) == flat(wanted)
        assert not session.is_incremental
        self.clients[client] = None
        if session.session_id:
            if len(self.known) == MAX_SESSIONS:
                oldest = min(self.known.values(), key=lambda model: model.used_ms)
                assert self.now_ms - oldest.used_ms >= MIN_IDLE_MS
                dropped = [number for number in self.known if number not in self.sessions._sessions]
                assert [self.known.pop(number).used_ms for number in dropped] == [oldest.used_ms]
            self.clients[client] = self.known[session.session_id] = Model(session.session_id, flat(wanted), self.now_ms)
        elif wanted:
            assert len(self.known) == MAX_SESSIONS

    @rule(client=CLIENTS, wanted=WANTED, forgotten=FORGOTTEN, lead=st.sampled_from([0, 0, 0, 1, -1]))
    def go_on(self, client: int, wanted: dict[str, dict[int, int]], forgotten: dict[str, list[int]], lead: int) -> None:
        model = self.clients.get(client)
        if model is None or model.next_epoch + lead < 1:
            return
        expected: type[KafkaError] | None = None
        if model.session_id not in self.known:
            expected = FetchSessionIdNotFound
        elif lead:
            expected = InvalidFetchSessionEpoch
        try:
            session = self.begin(model.session_id, model.next_epoch + lead, wanted=wanted, forgotten=forgotten)
        except KafkaError as error:
            assert type(error) is expected  # noqa: PT017 -- which of two, or none, is what the model says
            return
        assert expected is None
        for topic, indexes in forgotten.items():
            for index in indexes:
                model.wanted.pop((topic, index), None)
        model.wanted |= flat(wanted)
        model.next_epoch += 1
        model.used_ms = self.now_ms
        assert content(session) == model.wanted
        if model.wanted:
            assert session.is_incremental
        else:
            assert session.session_id == 0
            del self.known[model.session_id]

    @rule(client=CLIENTS)
    def end(self, client: int) -> None:
        model = self.clients.pop(client, None)
        if model is not None:
            assert self.begin(model.session_id, -1, wanted={}).session_id == 0
            self.known.pop(model.session_id, None)

    @invariant()
    def the_broker_knows_what_the_model_knows(self) -> None:
        assert set(self.sessions._sessions) == set(self.known)
        assert len(self.sessions) <= MAX_SESSIONS
        assert self.sessions._partitions == sum(len(model.wanted) for model in self.known.values())


Sessions.TestCase.settings = settings(max_examples=60, stateful_step_count=40)
TestSessions = Sessions.TestCase
