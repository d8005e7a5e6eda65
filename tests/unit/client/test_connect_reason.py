from collections.abc import Callable
from typing import NamedTuple

import pytest

from millstream.client.connect_reason import CLOSED, HTTP, OTHER_PROTOCOL, ConnectReason, connect_reason, is_http


class Reported(NamedTuple):
    """An error of librdkafka's."""

    kind: str
    text: str

    def name(self) -> str:
        return self.kind

    def str(self) -> "str":
        return self.text


REFUSED = "127.0.0.1:1/bootstrap: Connect to ipv4#127.0.0.1:1 failed: Connection refused (after 0ms in state CONNECT)"
TOO_LARGE = "127.0.0.1:1/bootstrap: Receive failed: Invalid response size {size} (0..100000000): increase receive.message.max.bytes"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (REFUSED, "Connection refused"),
        (TOO_LARGE.format(size=0x48545450), HTTP),
        (TOO_LARGE.format(size=0x3C21444F), HTTP),  # <!DO, of a page without a status
        (TOO_LARGE.format(size=0x16030100), OTHER_PROTOCOL),
        (TOO_LARGE.format(size=-1), OTHER_PROTOCOL),
        ("no colon at all", "no colon at all"),
    ],
)
def test_a_report_becomes_a_few_words(text: str, reason: str) -> None:
    assert connect_reason(text) == reason


def test_our_own_words_for_a_size_are_understood() -> None:
    assert is_http("a frame of 1213486160 bytes is above the limit of 1048576 (socket.request.max.bytes)")
    assert not is_http("a frame of 1213486161 bytes is above the limit of 1048576 (socket.request.max.bytes)")


def test_the_last_reason_counts_and_all_brokers_down_is_none() -> None:
    reason = ConnectReason()
    note: Callable[[Reported], None] = reason.note
    note(Reported("_TRANSPORT", REFUSED))
    note(Reported("_ALL_BROKERS_DOWN", "1/1 brokers are down"))
    assert (reason.text, reason.all_brokers_down) == ("Connection refused", True)


def test_a_connection_that_ends_without_a_word_has_a_reason_too() -> None:
    reason = ConnectReason()
    reason.note(Reported("_ALL_BROKERS_DOWN", "1/1 brokers are down"))
    assert reason.text == CLOSED
