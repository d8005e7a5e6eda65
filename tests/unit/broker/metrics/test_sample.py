from io import BytesIO

from millstream.broker.metrics.sample import BROKER, GROUPS, PARTITIONS, GroupSample, PartitionSample, encode_part, read_sample

ROW = ("clicks", 0, 1, 1, 3, 2, 1, 5, 10, 1000, 10, 900, 20, 3, 0, 4, 0, 0, False)
BROKER_ROW: tuple[object, ...] = (1, "cluster", "", True, 3, {"clicks": 1}, 0, {}, {"Produce": [1, 2]}, 4711)


def test_sample_comes_out_of_the_pipe_in_parts() -> None:
    parts = [
        encode_part(GROUPS, [("g", 2, [("clicks", 0, 7)])]),
        encode_part(PARTITIONS, [ROW]),
        encode_part(PARTITIONS, [("clicks", 1, *ROW[2:])]),
        encode_part(BROKER, [BROKER_ROW]),
    ]
    stream = BytesIO(b"".join([*parts, *parts]))
    for _ in range(2):
        sample = read_sample(stream)
        assert sample is not None
        assert sample.groups == [GroupSample("g", 2, [("clicks", 0, 7)])]
        assert sample.partitions == [PartitionSample(*ROW), PartitionSample("clicks", 1, *ROW[2:])]
        assert (sample.broker.cluster_id, sample.broker.requests) == ("cluster", {"Produce": [1, 2]})
    assert read_sample(stream) is None


def test_pipe_that_ends_inside_a_sample_has_no_more_samples() -> None:
    whole = encode_part(PARTITIONS, [ROW]) + encode_part(BROKER, [BROKER_ROW])
    for size in range(len(whole) - len(encode_part(BROKER, [BROKER_ROW])) + 5):
        assert read_sample(BytesIO(whole[:size])) is None
