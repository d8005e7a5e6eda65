from millstream.log.transactions.open_transactions import OpenTransactions


def test_without_transactions_nothing_is_unstable() -> None:
    assert OpenTransactions().first_unstable_offset(100) is None


def test_the_oldest_open_transaction_is_the_first_unstable_offset() -> None:
    transactions = OpenTransactions()
    transactions.begin(1, 10)
    transactions.begin(2, 20)
    assert transactions.first_unstable_offset(100) == 10
    assert transactions.end(1, 30) == 20
    assert transactions.first_unstable_offset(100) == 20


def test_a_transaction_whose_marker_is_not_replicated_is_unstable() -> None:
    transactions = OpenTransactions()
    transactions.begin(1, 10)
    transactions.begin(2, 20)
    assert transactions.end(2, 40) == 10
    assert transactions.end(1, 50) == 51
    assert transactions.first_unstable_offset(40) == 10
    assert transactions.first_unstable_offset(41) == 10
    assert transactions.first_unstable_offset(50) == 10
    assert transactions.first_unstable_offset(51) is None


def test_a_later_transaction_may_end_first_and_hold_readers_back() -> None:
    transactions = OpenTransactions()
    transactions.begin(1, 10)
    transactions.end(1, 30)
    transactions.begin(1, 40)
    assert transactions.first_unstable_offset(30) == 10
    assert transactions.first_unstable_offset(31) == 40
