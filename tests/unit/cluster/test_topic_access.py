import re
from pathlib import Path

import pytest

from millstream.broker import handlers
from millstream.broker.network.session import ANONYMOUS, Session
from millstream.cluster.topic_access import ADMIN_CLIENT, Operation, check_access, check_creation_on_demand, check_mirrored
from millstream.coordination.topic_names import INTERNAL_TOPICS
from millstream.errors import InvalidTopic, PolicyViolation, UnknownTopicOrPartition

CLIENT = Session("PLAINTEXT", "here", ANONYMOUS, "me")
TOOL = CLIENT._replace(client_id=ADMIN_CLIENT)


@pytest.mark.parametrize("operation", Operation)
def test_everybody_may_do_everything_with_ordinary_topics(operation: Operation) -> None:
    check_access(CLIENT, operation, "orders")
    check_creation_on_demand("orders")


@pytest.mark.parametrize("topic", sorted(INTERNAL_TOPICS))
def test_topics_of_the_broker_are_read_by_all_written_by_tools_and_deleted_by_no_client(topic: str) -> None:
    for operation in (Operation.READ, Operation.DESCRIBE):
        check_access(CLIENT, operation, topic)
    check_access(TOOL, Operation.WRITE, topic)
    with pytest.raises(InvalidTopic, match="written by the broker alone"):
        check_access(CLIENT, Operation.WRITE, topic)
    for client in (CLIENT, TOOL):
        with pytest.raises(InvalidTopic, match="can be deleted"):
            check_access(client, Operation.DELETE, topic)
    with pytest.raises(UnknownTopicOrPartition, match="by the broker itself"):
        check_creation_on_demand(topic)


def test_a_mirror_is_read_by_all_and_written_by_the_mirror_alone() -> None:
    for operation in (Operation.READ, Operation.DESCRIBE, Operation.MIRROR):
        check_mirrored(operation, "orders", "live/1/orders")
    for operation in (Operation.WRITE, Operation.DELETE):
        with pytest.raises(PolicyViolation, match="promote it first"):
            check_mirrored(operation, "orders", "live/1/orders")
    with pytest.raises(PolicyViolation, match="is not a mirror"):
        check_mirrored(Operation.MIRROR, "orders", "")


def test_no_handler_looks_a_partition_up_past_the_rules() -> None:
    sources = {path.name: path.read_text() for path in Path(handlers.__file__ or "").parent.glob("*.py")}
    assert len(sources) > 10
    assert [name for name, source in sources.items() if re.search(r"replicas\.partition\(", source)] == []
