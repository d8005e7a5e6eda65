"""The protocol between the thread that iterates a stream and the one that grants and takes away, with messages from a list."""

import asyncio
import threading
from collections.abc import Iterable, Iterator
from time import monotonic

import pytest

from millstream.client.errors import ClientError
from millstream.errors import UsageError
from millstream.paper.groups.assignment import StreamId
from millstream.paper.message import ConsumedMessage
from millstream.paper.progress import Claim
from millstream.paper.puller import Puller
from millstream.paper.stream import MessageStream, current_holder
from tests.unit.paper.records import message
from tests.waiting import wait_until

FOREVER = 1e9


class ListPuller(Puller):
    """Messages without end, `batch` of each partition at a time; or none at all."""

    def __init__(self, *, batch: int = 4) -> None:
        super().__init__("clicks", group="g", options={})
        self.batch = batch
        self.assigned: list[dict[int, int]] = []
        self.positions: dict[int, int] = {}
        self.error: ClientError | None = None
        self.is_closed = False

    def assign(self, brokers: str, offsets: Iterable[tuple[int, int]]) -> None:
        self.positions = dict(offsets)
        self.assigned.append(dict(self.positions))

    def pull(self, timeout_s: float) -> list[ConsumedMessage]:
        if self.error is not None:
            raise self.error
        messages = [message(partition, start + place) for place in range(self.batch) for partition, start in self.positions.items()]
        self.positions = {partition: start + self.batch for partition, start in self.positions.items()}
        if not messages:
            threading.Event().wait(timeout_s)
        return messages

    def close(self) -> None:
        self.is_closed = True


@pytest.fixture
def puller() -> ListPuller:
    return ListPuller()


@pytest.fixture
def stream(puller: ListPuller) -> Iterator[MessageStream]:
    made = MessageStream("clicks", StreamId("ann", 0), puller)
    made.renew(FOREVER)
    yield made
    made.close()


def claim(partition: int, start: int = 0) -> Claim:
    made = Claim("clicks", partition, start=start, version=0)
    made.stored = start
    return made


def offsets(messages: Iterable[ConsumedMessage]) -> list[int]:
    return [one.offset for one in messages]


def take(stream: MessageStream, count: int) -> list[ConsumedMessage]:
    return [one for one, _ in zip(stream, range(count), strict=False)]


def test_messages_come_in_order_and_the_loop_can_be_left_and_entered_again(stream: MessageStream) -> None:
    stream.grant([claim(0)])
    messages = iter(stream)
    assert offsets(next(messages) for _ in range(6)) == [0, 1, 2, 3, 4, 5]
    assert next(stream).offset == 6
    assert next(iter(stream)).offset == 7


def test_a_stream_without_partitions_waits_until_it_has_one(stream: MessageStream) -> None:
    got: list[ConsumedMessage] = []
    thread = threading.Thread(target=lambda: got.append(next(stream)))
    thread.start()
    stream.grant([claim(0, start=7)])
    thread.join(10)
    assert offsets(got) == [7]


def test_what_is_taken_away_in_the_middle_of_a_batch_is_handed_out_no_more_and_the_rest_goes_on(stream: MessageStream) -> None:
    first, second = claim(0), claim(1)
    stream.grant([first, second])
    messages = iter(stream)
    places = [(one.partition, one.offset) for one in (next(messages) for _ in range(3))]
    assert places == [(0, 0), (1, 0), (0, 1)]
    assert stream.take_away([0]) == [first]
    assert [(one.partition, one.offset) for one in (next(messages) for _ in range(3))] == [(1, 1), (1, 2), (1, 3)]
    assert first.handled == first.next == 2


def test_a_message_in_hand_is_waited_for(stream: MessageStream) -> None:
    stream.grant([claim(0)])
    messages = iter(stream)
    next(messages)
    [leaving] = stream.take_away([0])
    reported = threading.Event()
    assert stream.is_in_hand(leaving)
    stream.when_handled(leaving, reported.set)
    assert not reported.is_set()
    assert leaving.handled == 0
    threading.Thread(target=lambda: next(messages, None), daemon=True).start()
    assert reported.wait(10)
    assert leaving.handled == 1


def test_nothing_in_hand_is_nothing_to_wait_for(stream: MessageStream) -> None:
    stream.grant([claim(0)])
    [leaving] = stream.take_away([0])
    reported = threading.Event()
    stream.when_handled(leaving, reported.set)
    assert reported.is_set()


def test_nothing_is_handed_out_without_a_lease_not_even_the_rest_of_a_batch(stream: MessageStream) -> None:
    stream.grant([claim(0)])
    messages = iter(stream)
    next(messages)
    stream.renew(monotonic() - 1)
    got: list[ConsumedMessage] = []
    thread = threading.Thread(target=lambda: got.append(next(messages)))
    thread.start()
    thread.join(0.3)
    assert thread.is_alive()
    stream.renew(FOREVER)
    thread.join(10)
    assert offsets(got) == [1]


def test_what_may_be_committed_is_what_was_handled_and_the_holder_may_vouch_for_more(stream: MessageStream) -> None:
    stream.grant([claim(0)])
    messages = iter(stream)
    for _ in range(3):
        next(messages)
    assert [one.handled for one in stream.changed_claims()] == [2]
    assert [one.handled for one in stream.changed_claims(holder=object())] == [2]
    assert [one.handled for one in stream.changed_claims(holder=current_holder())] == [3]
    assert next(messages).offset == 3


def test_a_seek_holds_from_the_next_message_on(stream: MessageStream) -> None:
    stream.grant([claim(0, start=10)])
    messages = iter(stream)
    assert next(messages).offset == 10
    stream.seek(5)
    assert next(messages).offset == 5
    assert stream.claims()[0].handled == 5
    assert next(messages).offset == 6
    assert [one.handled for one in stream.changed_claims()] == [6]


def test_a_seek_names_a_partition_that_the_stream_owns(stream: MessageStream) -> None:
    stream.grant([claim(0), claim(1)])
    with pytest.raises(UsageError, match=r"owns the partitions \[0, 1\]"):
        stream.seek(5)
    with pytest.raises(UsageError, match=r"owns the partitions \[0, 1\]"):
        stream.seek(5, partition=2)
    with pytest.raises(UsageError, match="no offset -1"):
        stream.seek(-1, partition=0)
    stream.seek(5, partition=1)
    assert sorted((one.partition, one.offset) for one in take(stream, 2)) == [(0, 0), (1, 5)]


def test_closing_from_another_thread_ends_the_loop(stream: MessageStream, puller: ListPuller) -> None:
    ended = threading.Event()

    def iterate() -> None:
        for _ in stream:
            pass
        ended.set()

    threading.Thread(target=iterate).start()
    stream.close()
    assert ended.wait(10)
    assert puller.is_closed
    assert next(iter(stream), None) is None


def test_the_end_of_a_with_block_closes_the_stream(stream: MessageStream) -> None:
    with stream:
        pass
    assert list(stream) == []


def test_an_error_ends_the_loop_and_is_raised_again_while_it_lasts(stream: MessageStream, puller: ListPuller) -> None:
    stream.grant([claim(0)])
    puller.error = ClientError("broken")
    for _ in range(2):
        with pytest.raises(ClientError, match="broken"):
            next(stream)
    puller.error = None
    assert next(stream).offset == 0


def test_a_failure_of_the_group_reaches_whoever_waits(stream: MessageStream) -> None:
    threading.Thread(target=lambda: stream.fail(ClientError("gone"))).start()
    for _ in range(2):
        with pytest.raises(ClientError, match="gone"):
            next(stream)


def test_two_threads_on_one_stream_are_noticed(stream: MessageStream) -> None:
    waiting = threading.Thread(target=lambda: next(stream, None), daemon=True)
    waiting.start()
    wait_until(stream._turn.locked, "the first thread waits for messages")
    with pytest.raises(UsageError, match="two threads"):
        next(stream)
    stream.close()
    waiting.join(10)


async def test_a_task_iterates_without_blocking_its_loop(stream: MessageStream) -> None:
    stream.grant([claim(0)])
    got = []
    async for one in stream:
        got.append(one.offset)
        assert stream.is_held_by(current_holder())
        if len(got) == 6:
            break
    assert got == list(range(6))


async def test_a_task_that_is_cancelled_while_it_waits_loses_nothing(stream: MessageStream) -> None:
    async def read_all() -> None:
        async for _ in stream:
            pass

    with pytest.raises(TimeoutError):
        await asyncio.wait_for(read_all(), 0.05)
    stream.grant([claim(0)])
    async for one in stream:
        assert one.offset == 0
        break


async def test_closing_ends_a_task_that_waits(stream: MessageStream) -> None:
    async def count() -> int:
        return len([one async for one in stream])

    waiting = asyncio.create_task(count())
    await asyncio.to_thread(stream.close)
    assert await asyncio.wait_for(waiting, 10) == 0
