"""Claims 14, 21 to 23, 25 and 26: consumers and brokers come, go, die and pause; no message is lost, and only a crash repeats some.

A consumer that fails loses its registration and its ownerships, and the others of its group take over from the last stored offset. A broker
that fails takes its partitions out of the registry until it is back. One that cannot claim a partition waits and tries again. A consumer
may go back and consume again. On embedded coordination and on a real ZooKeeper.
"""

import threading
from datetime import UTC, datetime, timedelta

import pytest
from kazoo.client import KazooClient

from millstream.coordination.ensemble.kazoo_adapter import KazooCoordination
from millstream.paper.deduplicator import Deduplicator
from millstream.paper.message import ConsumedMessage, Message
from millstream.paper.producer import Producer
from millstream.paper.settings import ConsumerSettings
from millstream.paper.stream import MessageStream
from tests.paper.consumer_processes import StartConsumer
from tests.paper.sites import Reader, Site, fresh_group, wait_for_all
from tests.waiting import wait_until

BY_HAND = ConsumerSettings(auto_commit_interval_s=None, session_timeout_s=6.0)


def take(stream: MessageStream, count: int) -> list[ConsumedMessage]:
    messages = iter(stream)
    return [next(messages) for _ in range(count)]


def numbers(messages: list[ConsumedMessage]) -> list[int]:
    return [int(message.payload or b"") for message in messages]


class Sender(threading.Thread):
    """Sends numbers all the time, so that whatever happens in the group happens in the middle of traffic."""

    def __init__(self, site: Site, topic: str, partitions: int) -> None:
        super().__init__(daemon=True)
        self.count = 0
        self._site, self._topic, self._partitions = site, topic, partitions
        self._is_over = threading.Event()
        self.start()

    def run(self) -> None:
        with Producer(self._site.broker.bootstrap_servers) as producer:
            while not self._is_over.wait(0.002):
                producer.send(self._topic, [Message(b"%d" % (self.count + place), f"key-{place}") for place in range(20)])
                self.count += 20

    def stop(self) -> int:
        self._is_over.set()
        self.join(30)
        return self.count


def test_consumers_that_come_and_go_lose_nothing_and_repeat_nothing(site: Site) -> None:
    topic, group = site.topic(8), fresh_group()
    sender = Sender(site, topic, 8)
    readers = [site.reader(group, topic, consumer_id="a")]
    for name in ("b", "c", "d"):
        readers.append(site.reader(group, topic, consumer_id=name))
        wait_until(lambda: all(reader.partitions for reader in readers), "everybody has a share")
    for leaving in (1, 0):
        readers[leaving].close()
        wait_until(lambda: sum(len(reader.partitions) for reader in readers) == 8, "the others take over")
    count = sender.stop()
    assert wait_for_all(count, *readers) == list(range(count))
    for reader in readers:
        for partition in range(8):
            offsets = [message.offset for message in reader.got if message.partition == partition]
            assert offsets == sorted(offsets)


def test_a_consumer_that_is_killed_loses_its_partitions_and_nothing_else(site: Site, start_consumer: StartConsumer) -> None:
    topic, group = site.topic(4), fresh_group()
    victim = start_consumer(group, topic, name="victim", pause_s=0.002)
    victim.await_joined()
    survivor = site.reader(group, topic, consumer_id="survivor")
    wait_until(lambda: survivor.partitions == [0, 1], "two consumers")
    site.send(topic, 2000, partitions=4)
    wait_until(lambda: site.offsets(group, topic)[2] > 0, "the victim has stored how far it came")
    victim.kill()
    stored = site.offsets(group, topic)
    wait_until(lambda: survivor.partitions == [0, 1, 2, 3], "the survivor owns everything")
    # All but the message that is in hand.
    wait_until(lambda: sum(site.offsets(group, topic).values()) >= 1999, "everything is handled and stored")
    assert set(survivor.numbers) | victim.numbers == set(range(2000))
    for partition in (2, 3):
        again = [message.offset for message in survivor.got if message.partition == partition]
        assert again[:1] in ([stored[partition]], [])
    assert len(survivor.numbers) == len(set(survivor.numbers))


def test_a_consumer_paused_beyond_its_session_hands_out_and_stores_nothing_that_is_anothers_by_now(
    site: Site, start_consumer: StartConsumer
) -> None:
    topic, group = site.topic(2), fresh_group()
    sleeper = start_consumer(group, topic, name="sleeper", pause_s=0.01)
    sleeper.await_joined()
    heir = site.reader(group, topic, consumer_id="heir")
    wait_until(lambda: heir.partitions == [0], "the heir has its share")
    site.send(topic, 400, partitions=2)
    sleeper.await_messages(20)
    sleeper.pause()
    handled = sleeper.notes
    wait_until(lambda: heir.partitions == [0, 1], "the heir owns what the sleeper owned")
    wait_until(lambda: set(heir.numbers) | sleeper.numbers >= set(range(400)), "every message")
    wait_until(lambda: sum(site.offsets(group, topic).values()) >= 398, "and the offsets are stored")
    stored = site.offsets(group, topic)
    sleeper.resume()
    # It was in the middle of handling one message; it comes back into the group, and then gets only what is new.
    wait_until(lambda: heir.partitions == [0], "the sleeper is in the group again")
    assert len(sleeper.notes) <= len(handled) + 1
    assert all(offset >= stored[partition] for partition, offset in site.offsets(group, topic).items())
    site.send(topic, 100, start=400, partitions=2)
    wait_until(lambda: set(heir.numbers) | sleeper.numbers >= set(range(500)), "what is new")
    late = [number for _, _, number in sleeper.notes[len(handled) + 1 :]]
    assert late
    assert min(late) >= 398


def test_a_consumer_whose_session_was_lost_registers_again_and_goes_on_without_repeating(site: Site) -> None:
    topic, group = site.topic(2), fresh_group()
    reader = site.reader(group, topic, consumer_id="ann")
    site.send(topic, 100, partitions=2)
    wait_for_all(100, reader)
    before = site.tree.exists(f"/consumers/{group}/ids/ann")
    end_session(site, reader)
    wait_until(lambda: len(site.owners(group, topic)) == 2, "in the group again")
    assert site.tree.exists(f"/consumers/{group}/ids/ann").czxid > before.czxid
    site.send(topic, 100, start=100, partitions=2)
    assert wait_for_all(200, reader) == list(range(200))


def end_session(site: Site, reader: Reader) -> None:
    """Whoever knows the password of a session may take it over, and close it; its owner finds it expired."""
    coordination = reader.consumer._coordination
    assert isinstance(coordination, KazooCoordination)
    session = coordination._client.client_id
    assert session is not None

    def is_over() -> bool:
        """Its owner may have come back before the thief had closed it: then it is stolen again."""
        if coordination._client.client_id not in (None, session):
            return True
        thief = KazooClient(hosts=site.coordination, client_id=session)
        thief.start(timeout=20)
        thief.stop()
        thief.close()
        return False

    wait_until(is_over, "the session is over")


def test_a_partition_that_another_still_holds_is_waited_for(site: Site) -> None:
    topic, group = site.topic(1), fresh_group()
    holder = f"/consumers/{group}/owners/{topic}/0"
    site.tree.create(holder, b"another-0", ephemeral=True, makepath=True)
    reader = site.reader(group, topic)
    site.send(topic, 10)
    assert reader.partitions == []
    assert site.owners(group, topic) == {0: "another-0"}
    site.tree.delete(holder)
    assert wait_for_all(10, reader) == list(range(10))


def test_a_slow_handler_is_waited_for_before_its_partition_goes_to_another(site: Site) -> None:
    topic, group = site.topic(2), fresh_group()
    site.send(topic, 40, partitions=2)
    consumer = site.consumer(group, consumer_id="a")
    [slow] = consumer.create_message_streams(topic)
    messages = iter(slow)
    held = next(messages)
    while held.partition != 1:
        held = next(messages)
    done = threading.Thread(target=lambda: readers.append(site.reader(group, topic, consumer_id="b")))
    readers: list[Reader] = []
    done.start()
    wait_until(lambda: slow.partitions == [0], "the partition is being given up")
    assert site.owners(group, topic)[1] == "a-0"
    # Asking for the next message says that the one in hand has been handled.
    threading.Thread(target=lambda: list(messages), daemon=True).start()
    wait_until(lambda: site.owners(group, topic).get(1) == "b-0", "it has another owner")
    done.join(10)
    [reader] = readers
    wait_until(lambda: reader.got, "the other one reads")
    assert reader.got[0].offset == held.offset + 1


def test_a_broker_that_leaves_takes_its_partitions_along_and_brings_them_back(own_site: Site) -> None:
    topic, group = own_site.topic(2), fresh_group()
    reader = own_site.reader(group, topic)
    own_site.send(topic, 100, partitions=2)
    wait_for_all(100, reader)
    is_apart = own_site.coordination.count("/") > 0
    own_site.broker.stop()
    if is_apart:
        wait_until(lambda: own_site.owners(group, topic) == {}, "what is not there has no owner")
    own_site.broker.start()
    own_site.send(topic, 100, start=100, partitions=2)
    assert wait_for_all(200, reader) == list(range(200))


def test_a_consumer_that_crashes_repeats_what_was_not_committed_and_skips_nothing(site: Site) -> None:
    topic, group = site.topic(1), fresh_group()
    site.send(topic, 30)
    first = site.consumer(group, settings=BY_HAND)
    [stream] = first.create_message_streams(topic)
    assert numbers(take(stream, 10)) == list(range(10))
    first.commit()
    assert site.offsets(group, topic) == {0: 10}
    take(stream, 5)
    first.close()
    # Where the application commits, no other does, not even at the end.
    assert site.offsets(group, topic) == {0: 10}
    [stream] = site.consumer(group, settings=BY_HAND).create_message_streams(topic)
    assert numbers(take(stream, 3)) == [10, 11, 12]


def test_a_clean_end_stores_what_was_handled_but_not_the_message_in_hand(site: Site) -> None:
    topic, group = site.topic(1), fresh_group()
    site.send(topic, 10)
    consumer = site.consumer(group, settings=ConsumerSettings(auto_commit_interval_s=60))
    [stream] = consumer.create_message_streams(topic)
    take(stream, 5)
    consumer.close()
    assert site.offsets(group, topic) == {0: 4}


def test_offsets_are_stored_at_an_interval_and_never_before_a_message_was_handled(site: Site) -> None:
    topic, group = site.topic(1), fresh_group()
    site.send(topic, 10)
    [stream] = site.consumer(group).create_message_streams(topic)
    messages = iter(stream)
    for _ in range(4):
        next(messages)
    wait_until(lambda: site.offsets(group, topic) == {0: 3}, "three handled, one in hand")


def test_a_handler_that_raises_keeps_its_message_uncommitted(site: Site) -> None:
    topic, group = site.topic(1), fresh_group()
    site.send(topic, 5)

    def handle_all() -> None:
        with site.consumer(group) as consumer:
            [stream] = consumer.create_message_streams(topic)
            for message in stream:
                1 / (3 - int(message.payload or b""))

    with pytest.raises(ZeroDivisionError):
        handle_all()
    assert site.offsets(group, topic) == {0: 3}
    [stream] = site.consumer(group).create_message_streams(topic)
    assert numbers(take(stream, 2)) == [3, 4]


def test_an_application_that_minds_leaves_out_what_it_has_seen(site: Site) -> None:
    topic, group = site.topic(1), fresh_group()
    site.send(topic, 20)
    seen = Deduplicator()
    results: list[int] = []
    for count in (12, 8):
        # No commit: each life starts from the beginning.
        consumer = site.consumer(fresh_group() if count == 8 else group, settings=BY_HAND)
        [stream] = consumer.create_message_streams(topic)
        for message in seen.filter(stream):
            results.append(int(message.payload or b""))
            if len(results) % 20 in (12, 0):
                break
        consumer.close()
    assert results == list(range(20))


def test_a_group_consumes_again_from_an_old_offset_a_time_or_the_beginning(site: Site) -> None:
    topic, group = site.topic(1), fresh_group()
    start = datetime.now(UTC) - timedelta(minutes=10)
    with Producer(site.broker.bootstrap_servers) as producer:
        producer.send(topic, [Message(b"%d" % number, timestamp=start + timedelta(seconds=number)) for number in range(60)])
    consumer = site.consumer(group)
    [stream] = consumer.create_message_streams(topic)
    take(stream, 50)
    assert consumer.rewind(topic, to="earliest") == {0: 0}
    assert site.offsets(group, topic) == {0: 0}
    assert numbers(take(stream, 2)) == [0, 1]
    assert consumer.rewind(topic, to=start + timedelta(seconds=30)) == {0: 30}
    assert numbers(take(stream, 2)) == [30, 31]
    assert consumer.rewind(topic, to=7) == {0: 7}
    assert numbers(take(stream, 2)) == [7, 8]
    stream.seek(40)
    assert numbers(take(stream, 2)) == [40, 41]
    assert consumer.rewind(topic, to=1_000_000) == {0: 60}
    consumer.close()
    assert site.offsets(group, topic) == {0: 60}


async def test_an_application_with_an_event_loop_iterates_in_a_task(site: Site) -> None:
    topic, group = site.topic(1), fresh_group()
    site.send(topic, 20)
    async with site.consumer(group, settings=BY_HAND) as consumer:
        [stream] = consumer.create_message_streams(topic)
        got = []
        async for message in stream:
            got.append(int(message.payload or b""))
            if len(got) == 10:
                consumer.commit()
                break
        assert got == list(range(10))
    assert site.offsets(group, topic) == {0: 10}
