"""The paper, on its deployment: producers publish how many messages they sent per topic and time window, and by that consumers check
whether they have received everything."""

from datetime import UTC, datetime, timedelta

import pytest

from millstream import Consumer, Message, Producer
from millstream.audit.verdict import Verdict
from millstream.audited.settings import AuditSettings
from millstream.errors import UsageError
from tests.paper.sites import Site
from tests.topics import fresh_name

COUNT = 300
BUCKET = datetime.now(UTC).replace(minute=0, second=0, microsecond=0) - timedelta(hours=2)


def send(site: Site, topic: str) -> None:
    with Producer(site.broker.bootstrap_servers, audit="shop") as producer:
        moments = [BUCKET + timedelta(seconds=number) for number in range(COUNT)]
        producer.send(topic, [Message(b"%d" % number, "key", timestamp=moment) for number, moment in enumerate(moments)])


def audited(site: Site) -> Consumer:
    settings = AuditSettings("search", interval_s=0.5)
    return Consumer(site.coordination, fresh_name("group"), audit=settings, auto_commit_interval_s=0.1)


def test_a_consumer_finds_out_that_it_has_received_everything(shared_site: Site) -> None:
    topic = shared_site.topic()
    send(shared_site, topic)
    with audited(shared_site) as consumer:
        [stream] = consumer.create_message_streams(topic)
        for message in stream:
            if message.offset == COUNT - 1:
                consumer.commit()
                break
        row = consumer.audit.verdict(topic, BUCKET + timedelta(minutes=3))
        assert (row.verdict, row.count, row.expected, row.missing, row.repeated) == (Verdict.COMPLETE, COUNT, COUNT, 0, 0)
        assert row.bytes == sum(len(b"%d" % number) for number in range(COUNT)) + 3 * COUNT
        assert consumer.audit.verdict(topic, BUCKET + timedelta(minutes=30)).verdict is Verdict.COMPLETE
        assert consumer.audit.verdict(topic, datetime.now(UTC)).verdict is Verdict.OPEN


def test_a_consumer_finds_out_which_messages_it_has_not_received(shared_site: Site) -> None:
    topic = shared_site.topic()
    send(shared_site, topic)
    with audited(shared_site) as consumer:
        [stream] = consumer.create_message_streams(topic)
        for message in stream:
            if message.offset == 99:
                stream.seek(110)
            if message.offset == COUNT - 1:
                consumer.commit()
                break
        row = consumer.audit.verdict(topic, BUCKET)
        assert (row.verdict, row.count, row.missing) == (Verdict.MISSING, COUNT - 10, 10)
        [loss] = row.losses
        assert (loss.before, loss.partition, loss.count, loss.ranges) == ("broker", 0, 10, ((100, 110),))


def test_a_consumer_without_a_tier_has_nothing_to_ask(shared_site: Site) -> None:
    with shared_site.consumer(fresh_name("group")) as consumer, pytest.raises(UsageError, match="audit="):
        consumer.audit.publish()


def test_what_a_transaction_has_counts_when_it_is_committed(shared_site: Site) -> None:
    topic = shared_site.topic()
    brokers = shared_site.broker.bootstrap_servers

    def attempt(producer: Producer, count: int, *, error: Exception | None = None) -> None:
        with producer.transaction():
            producer.send(topic, [Message(b"message", "key", timestamp=BUCKET) for _ in range(count)])
            if error is not None:
                producer.flush()
                raise error

    with Producer(brokers, transactional_id=fresh_name("id"), audit=AuditSettings("shop", interval_s=0.5)) as producer:
        attempt(producer, 30)
        with pytest.raises(KeyError):
            attempt(producer, 20, error=KeyError())
        attempt(producer, 10)
    with audited(shared_site) as consumer:
        [stream] = consumer.create_message_streams(topic)
        received = [next(stream).offset for _ in range(40)]
        consumer.commit()
        # 30 and their marker, 20 that were aborted and their marker.
        assert received == [*range(30), *range(52, 62)]
        row = consumer.audit.verdict(topic, BUCKET)
        assert (row.verdict, row.count, row.expected, row.missing, row.surplus) == (Verdict.COMPLETE, 40, 40, 0, 0)
