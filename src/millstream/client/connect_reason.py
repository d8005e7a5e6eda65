"""Why a client cannot connect, in a few words: what librdkafka reports is long, repeated for ever, and sometimes about something else.

    127.0.0.1:1/bootstrap: Connect to ipv4#127.0.0.1:1 failed: Connection refused (after 0ms in state CONNECT)    Connection refused
    ...: Receive failed: Invalid response size 1213486160 (0..100000000): increase receive.message.max.bytes      it does not ...
    1/1 brokers are down                                                                                          it closes ...

The four bytes that a broker's answer begins with are its size; those of an answer of another protocol are its first letters.
"""

import re
from typing import Any, Final

_WRONG_SIZE: Final = re.compile(r"(?:Invalid response size|a frame of) (-?\d+)")
_HTTP_BEGINNINGS: Final = (b"HTTP", b"<!DO", b"<htm", b"<HTM")
"""Of an answer, and of what servers send whom they take for a client of HTTP/0.9: the page alone."""
_ALL_DOWN: Final = "_ALL_BROKERS_DOWN"
HTTP: Final = "it does not speak Kafka's protocol, but HTTP: is it a schema registry, or a page of metrics?"
OTHER_PROTOCOL: Final = "it does not speak Kafka's protocol"
CLOSED: Final = "it closes the connection at once: is it a broker, and one without TLS?"


def connect_reason(text: str) -> str:
    """What the text of an error of librdkafka's says about the other side."""
    if is_http(text):
        return HTTP
    if _WRONG_SIZE.search(text) is not None:
        return OTHER_PROTOCOL
    return text.partition(" (after ")[0].rpartition(": ")[2]


def is_http(text: str) -> bool:
    """Whether what an error calls the size of an answer is the beginning of one of HTTP."""
    size = _WRONG_SIZE.search(text)
    return size is not None and any(int(size[1]) == int.from_bytes(beginning, "big") for beginning in _HTTP_BEGINNINGS)


class ConnectReason:
    """Collects what a client of librdkafka reports about its connections: `error_cb=reason.note`."""

    def __init__(self) -> None:
        self.text = ""
        """The last reason; empty as long as there is none."""
        self.all_brokers_down = False

    def note(self, error: Any) -> None:
        """Take an error that librdkafka reports."""
        if error.name() == _ALL_DOWN:
            self.all_brokers_down = True
            self.text = self.text or CLOSED
        else:
            self.text = connect_reason(error.str())
