from typing import cast

from millstream.audited.tier import Tier
from millstream.audited.transaction_hold import Sent, TransactionHold


class Answers:
    """A tier that notes the tokens it is answered."""

    def __init__(self) -> None:
        self.sent_tokens: list[int] = []
        self.failed_tokens: list[int] = []

    def sent(self, token: int, *_: object, **__: object) -> None:
        self.sent_tokens.append(token)

    def failed(self, token: int) -> None:
        self.failed_tokens.append(token)


def sent(token: int) -> Sent:
    return Sent(token, "orders", 0, 1, 0)


def test_messages_of_a_transaction_count_when_it_is_committed() -> None:
    answers = Answers()
    hold = TransactionHold(cast(Tier, answers))
    hold.note(sent(1))
    hold.begin()
    hold.note(sent(2))
    assert answers.sent_tokens == [1]
    hold.end(is_committed=True)
    hold.note(sent(3))
    assert (answers.sent_tokens, answers.failed_tokens) == ([1, 2, 3], [])


def test_messages_of_a_transaction_that_is_aborted_were_not_sent() -> None:
    answers = Answers()
    hold = TransactionHold(cast(Tier, answers))
    hold.begin()
    hold.note(sent(1))
    hold.end(is_committed=False)
    assert (answers.sent_tokens, answers.failed_tokens) == ([], [1])
