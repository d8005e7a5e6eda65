"""Nothing is lost between two datacentres whatever fails on the way, the audit says so exactly, and names what is lost on purpose."""

from collections.abc import Iterator

import pytest

from tests.cluster.server_process import missing_zookeeper
from tests.datacentres.story import Story
from tests.java import is_java_there

pytestmark = pytest.mark.timeout(600)

OUTAGE_S = 2.0
A_MINUTE_S = 60.0


def reason_to_skip(live: str) -> str | None:
    if live == "kafka" and not is_java_there():
        return "Apache Kafka needs Java, and its jars in .cache/kafka-4.2.0/libs"
    return missing_zookeeper() if live == "zookeeper" else None


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(("zookeeper", 1, OUTAGE_S), id="millstream"),
        pytest.param(("kafka", 1, OUTAGE_S), id="kafka"),
        pytest.param(("embedded", 3, A_MINUTE_S), id="three-brokers", marks=pytest.mark.long),
    ],
)
def story(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Story]:
    """After the faults, when everything has arrived."""
    live, brokers, outage_s = request.param
    reason = reason_to_skip(live)
    if reason is not None:
        pytest.skip(reason)
    with Story(tmp_path_factory.mktemp("two"), live=live, offline="embedded", brokers=brokers, outage_s=outage_s, say=print) as told:
        told.run()
        yield told


def test_every_batch_has_its_offset_and_its_bytes_at_the_target(story: Story) -> None:
    story.check_bytes()


def test_the_audit_counts_every_message_once_at_every_tier(story: Story) -> None:
    story.check_counts()


def test_ten_messages_that_disappear_are_named(story: Story) -> None:
    story.check_ten_that_disappeared()


def test_ten_messages_that_were_sent_twice_are_named(story: Story) -> None:
    story.check_ten_that_were_sent_twice()


def test_a_consumer_finds_out_that_it_has_missed_ten(story: Story) -> None:
    story.check_what_a_consumer_asks()
