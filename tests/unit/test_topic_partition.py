from millstream.topic_partition import TopicPartition, by_topic


def test_partitions_are_grouped_by_topic_in_order() -> None:
    partitions = [TopicPartition("b", 2), TopicPartition("a", 1), TopicPartition("b", 0)]
    assert list(by_topic(partitions).items()) == [("a", [1]), ("b", [0, 2])]
    assert str(partitions[0]) == "b-2"
