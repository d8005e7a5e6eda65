"""A full disk: an error instead of an acknowledgement, a clear end, and nothing acknowledged lost once there is room again."""

from kio.schema.errors import ErrorCode

from tests.brokers import IS_KAFKA, StartBroker
from tests.crash.load import assert_nothing_acknowledged_is_lost, under_load
from tests.crash.loop_disk import LoopDisk
from tests.topics import create_topic, produce_values, read_all


def test_broker_on_a_full_disk_ends_with_a_clear_line_and_loses_nothing(loop_disk: LoopDisk, start_broker: StartBroker) -> None:
    broker = start_broker(data=loop_disk.path / "data")
    topic = create_topic(broker)
    filler = loop_disk.fill(leave_bytes=4 << 20)
    with under_load(broker, topic, value_bytes=10_000) as load:
        exit_code = broker.wait()
    assert exit_code != 0
    assert set(load.refusals) <= {ErrorCode.kafka_storage_error, ErrorCode.not_leader_or_follower}
    if not IS_KAFKA:
        assert "No space left on device" in broker.output
        assert "Traceback" not in broker.output
    assert len(load.acknowledged) > 100
    filler.unlink()
    broker.start()
    assert_nothing_acknowledged_is_lost(broker, topic, load)
    produce_values(broker, topic, [b"9:0:there is room again"])
    assert (read_all(broker, topic)[-1].value or b"").endswith(b"room again")


def test_disk_that_is_full_at_the_start_is_reported_in_one_sentence(loop_disk: LoopDisk, start_broker: StartBroker) -> None:
    loop_disk.fill(leave_bytes=0)
    (loop_disk.path / "data").mkdir(exist_ok=True)
    broker = start_broker(data=loop_disk.path / "data", start=False)
    try:
        broker.start()
    except AssertionError:
        assert not broker.is_running
        assert "Traceback" not in broker.output
    else:
        broker.kill()
