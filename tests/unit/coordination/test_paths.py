from millstream.coordination import paths
from millstream.zookeeper.znode import check_path, parent_of


def test_the_persistent_parents_stand_in_the_order_in_which_they_can_be_created() -> None:
    created = {"/"}
    for path in paths.PERSISTENT_PARENTS:
        assert parent_of(path) in created
        created.add(path)


def test_every_path_is_one_that_zookeeper_takes() -> None:
    for path in (
        paths.broker(1),
        paths.topic("orders"),
        paths.partition("orders", 3),
        paths.broker_epoch(1),
        paths.broker_config(1),
        paths.broker_config(None),
        paths.consumer("group", "consumer-1"),
        paths.partition_owner("group", topic_name="orders", partition=0),
        paths.committed_offset("group", topic_name="orders", partition=0),
        *paths.PERSISTENT_PARENTS,
    ):
        check_path(path)


def test_the_default_broker_config_is_named_as_in_kafka() -> None:
    assert paths.broker_config(None) == "/config/brokers/<default>"
