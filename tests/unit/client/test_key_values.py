"""Keys and values in batches that a topic takes."""

from millstream.client.key_values import MOST_BATCH_BYTES, batches_of


def test_batches_are_as_large_as_a_topic_takes_and_keep_the_order() -> None:
    half = b"x" * (MOST_BATCH_BYTES // 2)
    pairs = [(b"", half), (b"", half), (b"k", None), (b"", half * 3), (b"", b"last")]
    batches = list(batches_of(pairs))
    assert [pair for batch in batches for pair in batch] == pairs
    assert [len(batch) for batch in batches] == [2, 1, 1, 1]


def test_without_pairs_there_is_no_batch() -> None:
    assert list(batches_of([])) == []
