"""Topics whose segments are made as long as they may become: what was written is in them, before and after the end of the broker."""

import pytest

from tests.brokers import Broker, StartBroker
from tests.topics import create_topic, produce_values, read_all

SEGMENT_BYTES = 1 << 20


@pytest.mark.parametrize("end", [Broker.stop, Broker.kill], ids=["stopped", "killed"])
def test_preallocated_segments_hold_what_was_written_and_no_more(start_broker: StartBroker, end: object) -> None:
    broker = start_broker()
    topic = create_topic(broker, configs={"preallocate": "true", "segment.bytes": SEGMENT_BYTES})
    values = [b"%06d" % number + b"x" * 500 for number in range(5000)]
    produce_values(broker, topic, values)
    logs = sorted(broker.partition_directory(topic).glob("*.log"))
    assert logs[-1].stat().st_size == SEGMENT_BYTES
    assert [record.value for record in read_all(broker, topic)] == values
    end(broker)  # type: ignore[operator]
    broker.start()
    assert [record.value for record in read_all(broker, topic)] == values
    produce_values(broker, topic, [b"after"])
    assert [record.value for record in read_all(broker, topic)] == [*values, b"after"]
