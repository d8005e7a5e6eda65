import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

from millstream.cli.top.metrics_page import fetch_page
from millstream.testing import Broker
from tests.unit.cli.conftest import Millstream


def test_a_page_that_was_asked_for_and_does_not_come_is_said(millstream: Millstream, millstream_broker: Broker) -> None:
    brokers = ("-b", millstream_broker.bootstrap_servers)
    done = millstream("top", "--count", "1", "--metrics", "http://127.0.0.1:1", *brokers)
    assert done.code == 0, done.err
    assert done.out.splitlines()[0].endswith("  no metrics at http://127.0.0.1:1")
    assert "no metrics" not in millstream("top", "--count", "1", *brokers).out


class _Endless(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b'kafka_topic_partition_current_offset{topic="t",partition="0"} +Inf\n')

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 -- the name is the standard library's
        """Not a line per request."""


def test_a_page_of_figures_that_are_no_numbers_is_none() -> None:
    with HTTPServer(("127.0.0.1", 0), _Endless) as server:
        threading.Thread(target=server.handle_request, daemon=True).start()
        assert fetch_page(f"http://127.0.0.1:{server.server_port}", now=0.0) is None
