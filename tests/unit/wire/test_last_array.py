from collections.abc import Mapping

from millstream.wire.api import ApiKey
from millstream.wire.last_array import framed_with_elements, with_elements
from millstream.wire.message_writer import message_writer
from millstream.wire.messages import encode_response
from millstream.wire.responses.alter_replica_log_dirs import ALTER_REPLICA_LOG_DIR_TOPIC_RESULT
from millstream.wire.responses.describe_producers import PARTITION_RESPONSE, PRODUCER_STATE, TOPIC_RESPONSE
from millstream.wire.schema import schema_at


def test_an_answer_in_pieces_has_the_same_bytes() -> None:
    producer, partition, topic = (schema_at(one, 0, is_flexible=True) for one in (PRODUCER_STATE, PARTITION_RESPONSE, TOPIC_RESPONSE))
    producers = [{"producer_id": number, "producer_epoch": 1, "coordinator_epoch": -1} for number in range(300)]
    described = {"partition_index": 3, "error_code": 0, "error_message": None}
    pieces = [message_writer(producer)(one) for one in producers]
    part = with_elements(message_writer(partition)({**described, "active_producers": []}), pieces)
    whole = with_elements(message_writer(topic)({"name": "orders", "partitions": []}), [part, part])
    expected = {"topics": [{"name": "orders", "partitions": [{**described, "active_producers": producers}] * 2}]}

    def answer(fields: Mapping[str, object]) -> bytes:
        return encode_response(ApiKey.DESCRIBE_PRODUCERS, 0, correlation_id=5, reply=fields)

    assert framed_with_elements(answer({"topics": []}), [whole]) == answer(expected)


def test_an_answer_of_an_inflexible_version_may_come_in_pieces_too() -> None:
    topics: list[Mapping[str, object]] = [
        {"topic_name": "orders", "partitions": [{"partition_index": number, "error_code": 3}]} for number in range(300)
    ]
    encode = message_writer(schema_at(ALTER_REPLICA_LOG_DIR_TOPIC_RESULT, 1, is_flexible=False))

    def answer(topics: list[Mapping[str, object]]) -> bytes:
        return encode_response(ApiKey.ALTER_REPLICA_LOG_DIRS, 1, correlation_id=5, reply={"results": topics})

    assert framed_with_elements(answer([]), [encode(topic) for topic in topics], is_flexible=False) == answer(topics)
