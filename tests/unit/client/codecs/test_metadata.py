from uuid import UUID

import pytest

from millstream.address import Address
from millstream.client.codecs.metadata import NO_LEADER, ClusterMetadata, metadata_request, read_metadata
from millstream.errors import InvalidTopic
from millstream.wire.api import ApiKey
from millstream.wire.messages import decode_response, encode_response

ANSWER_HEADER = 9


def answer(version: int) -> ClusterMetadata:
    partition = {
        "error_code": 0,
        "partition_index": 1,
        "leader_id": 7,
        "leader_epoch": 3,
        "replica_nodes": [7, 8],
        "isr_nodes": [7],
        "offline_replicas": [],
    }
    orphan = {**partition, "partition_index": 0, "leader_id": NO_LEADER}
    topic = {"error_code": 0, "name": "clicks", "topic_id": UUID(int=5), "is_internal": False, "partitions": [partition, orphan]}
    wrong = {"error_code": 17, "name": "..", "topic_id": None, "is_internal": False, "partitions": []}
    reply = {
        "throttle_time_ms": 0,
        "brokers": [{"node_id": 7, "host": "seven", "port": 9092, "rack": None}],
        "cluster_id": "cluster",
        "controller_id": 7,
        "topics": [topic, wrong],
    }
    frame = encode_response(ApiKey.METADATA, version, correlation_id=1, reply=reply)
    return read_metadata(decode_response(ApiKey.METADATA, version, body=frame, start=ANSWER_HEADER if version >= 9 else 8))


@pytest.mark.parametrize("version", [4, 8, 9, 12])
def test_every_version_is_read_and_what_it_lacks_is_unknown(version: int) -> None:
    metadata = answer(version)
    assert metadata.brokers == {7: Address("seven", 9092)}
    assert (metadata.cluster_id, metadata.controller) == ("cluster", 7)
    clicks = metadata.topics["clicks"]
    assert list(clicks.partitions) == [0, 1]
    assert clicks.topic_id == (UUID(int=5) if version >= 10 else None)
    second = clicks.partitions[1]
    assert (second.leader, second.replicas, second.in_sync_replicas) == (7, (7, 8), (7,))
    assert second.leader_epoch == (3 if version >= 7 else -1)


def test_a_topic_that_cannot_be_used_says_why() -> None:
    with pytest.raises(InvalidTopic, match=r"the topic '\.\.' cannot be used"):
        answer(12).topics[".."].check()


def test_what_was_asked_about_replaces_what_was_known_and_the_rest_stays() -> None:
    known = answer(12)
    newer = ClusterMetadata({8: Address("eight", 9092)}, {"views": known.topics["clicks"]}, 8, "cluster")
    both = known.updated(newer)
    assert set(both.topics) == {"clicks", "..", "views"}
    assert set(both.brokers) == {8}


def test_nothing_is_created_by_asking_unless_it_is_asked_for() -> None:
    assert metadata_request(["clicks"]).fields["allow_auto_topic_creation"] is False
    assert metadata_request(["clicks"]).versions[0] == 4
    assert metadata_request(None, create=True).fields["allow_auto_topic_creation"] is True
