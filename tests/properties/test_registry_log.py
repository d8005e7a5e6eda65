"""Random histories of two writers that take the log from each other: all readers agree, no id means two schemas, and compaction loses
nothing.

A writer here does what `millstream.registry.writer` does, but may go on deciding and appending after it was deposed, on whatever it has
read: as an instance that was stopped for a while, or whose records were under way when another claimed the log.
"""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from millstream.registry.errors import RegistryError
from millstream.registry.model.deletion import decide_subject_deletion
from millstream.registry.model.records import LogRecord
from millstream.registry.model.registration import Registrar, read_request
from millstream.registry.model.settings import Decision, decide_config
from millstream.registry.model.state import Claim, RegistryState, claim_record

Log = list[tuple[LogRecord, str | None]]
SUBJECTS = ("a", "b", ":.c:a")
SCHEMAS = ('"int"', '"long"', '"double"', '{"type":"fixed","name":"F","size":1}')


class Reader:
    """A state, and how far the log has been read into it."""

    def __init__(self) -> None:
        self.state = RegistryState()
        self.position = 0
        self.meanings: dict[tuple[str, int], set[str]] = {}

    def read(self, log: Log) -> None:
        for record, term in log[self.position :]:
            if self.state.apply(record, term=term) and record.key.type == "SCHEMA" and record.value is not None:
                place = (str(record.key.subject).rpartition(":")[0], record.value["id"])
                self.meanings.setdefault(place, set()).add(record.value["schema"])
        self.position = len(log)

    def picture(self) -> dict[str, Any]:
        """Everything that a client could find out."""
        versions = {
            name: {number: (one.schema_id, one.content.text, one.is_deleted) for number, one in sorted(listed.items())}
            for name, listed in sorted(self.state.subjects.items())
        }
        return {"versions": versions, "configs": dict(sorted(self.state.configs.items(), key=str))}


class RandomWriter(Reader):
    """One instance."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name
        self.term = ""
        self.claims = 0

    def claim(self, log: Log) -> None:
        self.read(log)
        self.claims += 1
        self.term = f"{self.name}-{self.claims}"
        log.append((claim_record(Claim(self.term, self.name, self.name), self.state.highest_ids()), self.term))
        self.read(log)
        self.append(log, Decision((), None))

    def append(self, log: Log, decision: Decision) -> None:
        records = [*self.state.corrections(), *decision.records]
        claim = self.state.claim
        if claim is not None and any(one.value is None and one.key.type == "SCHEMA" for one in records):
            records.append(claim_record(claim, self.state.highest_ids()))
        log.extend((one, self.term) for one in records)

    def act(self, log: Log, action: tuple[str, str, int]) -> None:
        """Decide on what has been read, and append it; the writer of the moment reads everything first, as it always has."""
        if action[0] == "remove":
            for kind in ("delete", "delete for good"):
                self.act(log, (kind, *action[1:]))
        elif self.state.claim is None or self.state.claim.term != self.term:
            self.append(log, self._decide(action))
        else:
            latest = Reader()
            latest.read(log)
            if latest.state.claim == self.state.claim:
                self.read(log)
            self.append(log, self._decide(action))

    def _decide(self, action: tuple[str, str, int]) -> Decision:
        kind, subject, number = action
        try:
            if kind == "register":
                request = read_request({"schema": SCHEMAS[number]})
                return Registrar(self.state).decide_registration(subject, request, normalize=False)
            if kind == "config":
                return decide_config(self.state, subject, {"compatibility": ("NONE", "FULL", "BACKWARD", "FORWARD")[number]})
            return decide_subject_deletion(self.state, subject, permanent=kind == "delete for good")
        except RegistryError:
            return Decision((), None)


ACTIONS = st.tuples(
    st.sampled_from(("register", "register", "register", "config", "delete", "delete for good", "remove")),
    st.sampled_from(SUBJECTS),
    st.integers(0, len(SCHEMAS) - 1),
)
STEPS = st.lists(st.tuples(st.integers(0, 1), st.one_of(ACTIONS, st.just("claim"), st.just("read"))), max_size=40)


def compacted(log: Log) -> Log:
    """The last record of every key, where it stood; deleted keys are gone."""
    last = {record.key: index for index, (record, _) in enumerate(log)}
    return [(record, term) for index, (record, term) in enumerate(log) if last[record.key] == index and record.value is not None]


@settings(max_examples=400)
@given(STEPS)
def test_the_order_of_the_log_decides_for_everybody(steps: list[tuple[int, Any]]) -> None:
    log: Log = []
    writers = [RandomWriter("one"), RandomWriter("other")]
    writers[0].claim(log)
    for who, step in steps:
        if step == "claim":
            writers[who].claim(log)
        elif step == "read":
            writers[who].read(log)
        else:
            writers[who].act(log, step)
    # The next writer puts right what was ignored.
    writers[0].claim(log)
    late = Reader()
    late.read(log)
    for writer in writers:
        writer.read(log)
        assert writer.picture() == late.picture()
    assert [place for place, texts in late.meanings.items() if len(texts) > 1] == []
    after = Reader()
    after.read(compacted(log))
    assert after.picture() == late.picture()
    for context in late.state.contexts:
        assert after.state.next_id(context) >= late.state.next_id(context)
