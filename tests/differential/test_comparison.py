"""The comparison itself: what it takes for the same, and that it finds what is not."""

from dataclasses import dataclass
from uuid import UUID

import pytest

from tests.batches import encode_batch
from tests.differential.accepted import not_accepted
from tests.differential.answer import Compared, Difference, Unifier, tree
from tests.differential.symbol import PerSide, Symbol, Symbols

METADATA, FETCH = 3, 1


@dataclass(frozen=True)
class Topic:
    name: str
    topic_id: UUID | None = None
    error_message: str | None = None
    records: bytes | None = None


@dataclass(frozen=True)
class Answer:
    topics: tuple[Topic, ...]


class TwoSides:
    """Two brokers that know nothing of each other yet."""

    def __init__(self) -> None:
        self.kafka = Symbols()
        self.ours = Symbols()
        self.unifier = Unifier(self.kafka, self.ours)

    def compare(self, kafka: Answer, ours: Answer) -> list[Difference]:
        trees = tree(kafka, self.kafka, prefix="d-own-"), tree(ours, self.ours, prefix="d-own-")
        return list(self.unifier.differences(*trees))


@pytest.fixture
def sides() -> TwoSides:
    return TwoSides()


def test_field_that_differs_is_reported_with_its_place_and_both_values(sides: TwoSides) -> None:
    found = sides.compare(Answer((Topic("a", error_message=None),)), Answer((Topic("a", error_message="no"),)))
    assert found == [Difference("topics.a.error_message", None, "(something)")]


def test_entry_that_one_side_lacks_is_reported(sides: TwoSides) -> None:
    (found,) = sides.compare(Answer((Topic("a"), Topic("b"))), Answer((Topic("b"),)))
    assert found.path == "topics.a"
    assert str(found.ours) == "(absent)"


def test_order_of_an_array_and_words_of_a_sentence_are_not_compared(sides: TwoSides) -> None:
    kafka = Answer((Topic("a", error_message="one"), Topic("b")))
    assert sides.compare(kafka, Answer((Topic("b"), Topic("a", error_message="other")))) == []


def test_entries_of_other_scenarios_are_left_out(sides: TwoSides) -> None:
    assert sides.compare(Answer((Topic("d-own-1"),)), Answer((Topic("d-own-1"), Topic("d-another-1")))) == []


def test_ids_may_differ_as_long_as_the_same_thing_keeps_its_id(sides: TwoSides) -> None:
    one, two, strange = UUID(int=1), UUID(int=2), UUID(int=3)
    assert sides.compare(Answer((Topic("a", one),)), Answer((Topic("a", two),))) == []
    assert sides.compare(Answer((Topic("a", one),)), Answer((Topic("a", two),))) == []
    (found,) = sides.compare(Answer((Topic("a", one),)), Answer((Topic("a", strange),)))
    assert found.kafka == Symbol("topic", 1)
    (found,) = sides.compare(Answer((Topic("a", one),)), Answer((Topic("a", None),)))
    assert found.ours is None


def test_request_carries_each_sides_own_values(sides: TwoSides) -> None:
    symbol = Symbol("producer", 1)
    sides.kafka.bind(symbol, 7)
    sides.ours.bind(symbol, 8)
    request = {"ids": [symbol], "batch": PerSide("batch", lambda own: own.resolve(symbol) + 100)}
    assert sides.kafka.resolve(request) == {"ids": [7], "batch": 107}
    assert sides.ours.resolve(request) == {"ids": [8], "batch": 108}


def test_batches_are_compared_by_header_and_records_and_a_cut_one_by_its_size(sides: TwoSides) -> None:
    batch = encode_batch([b"a"], timestamp=1)
    other = encode_batch([b"b"], timestamp=1)
    kafka = Answer((Topic("a", records=batch),))
    assert sides.compare(kafka, kafka) == []
    assert {one.path.rpartition(".")[2] for one in sides.compare(kafka, Answer((Topic("a", records=other),)))} == {"crc", "records"}
    paths = {one.path.rpartition(".")[2] for one in sides.compare(kafka, Answer((Topic("a", records=batch + b"cut"),)))}
    assert paths == {"size", "bytes of a cut batch"}


def test_only_what_the_lists_name_is_accepted() -> None:
    listed = Difference("topics.a.error_message", None, "(something)")
    reverse = Difference("topics.a.error_message", "(something)", None)
    code = Difference("topics.a.error_code", "none", "invalid_request")
    compared = Compared({}, {}, {}, [listed, reverse, code])
    assert not_accepted(METADATA, compared) == [reverse, code]


def test_answer_over_which_kafka_tripped_is_not_compared_unless_we_tripped_too() -> None:
    code = Difference("error_code", "unknown_server_error", "invalid_request")
    tripped = {"error_code": "unknown_server_error"}
    assert not_accepted(FETCH, Compared(tripped, {"error_code": "invalid_request"}, {}, [code])) == []
    assert not_accepted(FETCH, Compared(tripped, "(the connection was closed)", {}, [code])) == [code]
