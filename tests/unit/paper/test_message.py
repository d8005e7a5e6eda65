from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from millstream.errors import UsageError
from millstream.paper.message import Message, MessageSet, as_messages, milliseconds_of


def test_a_message_is_bytes_and_text_is_sent_as_utf_8() -> None:
    message = Message("grüß", key="schlüssel")
    assert (message.payload, message.key) == ("grüß".encode(), "schlüssel".encode())
    assert Message(bytearray(b"x")).payload == b"x"
    assert Message(memoryview(b"x")).payload == b"x"
    assert Message(None).payload is None


def test_headers_and_timestamp_travel_with_a_message() -> None:
    moment = datetime(2026, 1, 2, tzinfo=UTC)
    message = Message(b"x", headers={"trace": b"1"}, timestamp=moment)
    assert message.headers == [("trace", b"1")]
    assert message.timestamp_ms == round(moment.timestamp() * 1000)
    assert Message(b"x", headers=[("a", b"1"), ("a", None)]).headers == [("a", b"1"), ("a", None)]
    assert (Message(b"x").headers, Message(b"x").timestamp_ms) == ((), None)


def test_messages_with_the_same_content_are_equal() -> None:
    assert Message(b"a", key="k") == Message("a", key=b"k")
    assert Message(b"a") != Message(b"a", timestamp=1)
    assert len({Message(b"a"), Message("a")}) == 1


@pytest.mark.parametrize("payload", [7, {"a": 1}, object()])
def test_what_is_no_bytes_is_refused_with_advice(payload: bytes) -> None:
    with pytest.raises(UsageError, match="encode it first"):
        Message(payload)


def test_a_set_keeps_its_order_and_takes_payloads_for_messages() -> None:
    messages = MessageSet([Message(b"a"), b"b", "c"])
    assert len(messages) == 3
    assert [message.payload for message in messages] == [b"a", b"b", b"c"]


@pytest.mark.parametrize("one", [b"one", "one", Message(b"one")])
def test_a_set_of_one_message_is_still_a_set(one: Any) -> None:
    with pytest.raises(UsageError, match=r"write MessageSet\(\["):
        MessageSet(one)


@pytest.mark.parametrize("make", [lambda: 7, lambda: {"a": b"1"}, lambda: None])
def test_what_cannot_be_sent_is_refused(make: Callable[[], bytes]) -> None:
    with pytest.raises(UsageError, match="cannot be sent"):
        as_messages(make())


def test_a_time_without_a_zone_is_refused_because_it_means_nothing_to_others() -> None:
    with pytest.raises(UsageError, match="no time zone"):
        milliseconds_of(datetime(2026, 1, 1))  # noqa: DTZ001 - what is refused
