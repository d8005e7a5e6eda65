import pyarrow as pa

from millstream.spark.jobs.load.dead_letters import LETTERS, LONGEST_KEY, LONGEST_VALUE, as_messages

MOST_BYTES = 1_048_576
"""Of a record, in brokers and producers that are as they come."""


def test_a_letter_is_cut_to_what_brokers_take() -> None:
    """One that they refuse would end the load after its commit, at every start anew."""
    rows = [
        {"topic": "clicks", "partition": 0, "offset": 7, "timestamp": 1, "key": key, "value": value, "reason": "r" * 2_000}
        for key, value in ((b"k", b"v"), (b"k" * 600_000, b"v" * 1_500_000), (None, None))
    ]
    [messages] = as_messages(pa.RecordBatch.from_pylist(rows, schema=LETTERS))
    small, large, empty = messages.to_pylist()
    assert (small["key"], small["value"], empty["key"], empty["value"]) == (b"k", b"v", None, None)
    assert (len(large["key"]), len(large["value"])) == (LONGEST_KEY, LONGEST_VALUE)
    headers = {one["key"]: one["value"] for one in large["headers"]}
    assert headers["millstream.size"] == b"1500000"
    assert len(large["key"]) + len(large["value"]) + sum(len(name) + len(value) for name, value in headers.items()) < MOST_BYTES - 10_000
