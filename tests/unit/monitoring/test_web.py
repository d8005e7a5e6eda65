import socket
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator

import pytest

from millstream.monitoring import web
from millstream.monitoring.lag import Lags
from millstream.monitoring.publisher import Publisher
from millstream.monitoring.web import MetricsServer
from tests.unit.monitoring.samples import partition_sample, sample_of, take
from tests.unit.monitoring.test_lag import ScriptedReader


@pytest.fixture
def url() -> Iterator[str]:
    publisher = Publisher(Lags(ScriptedReader()), interval_s=600, version="1.2")
    take(publisher, sample_of([partition_sample("a", end=5)]))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = MetricsServer(listener, publisher)
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        server.shutdown()
        thread.join()


def get(url: str, method: str = "GET") -> tuple[int, str, bytes]:
    try:
        with urllib.request.urlopen(urllib.request.Request(url, method=method), timeout=30) as answer:
            return answer.status, answer.headers["Content-Type"], answer.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.headers["Content-Type"], error.read()


def test_pages_are_where_prometheus_and_probes_look(url: str) -> None:
    status, content_type, body = get(url + "/metrics?name=anything")
    assert (status, content_type) == (200, "text/plain; version=0.0.4; charset=utf-8")
    assert b'kafka_topic_partition_current_offset{topic="a",partition="0"} 5\n' in body
    assert get(url + "/health")[0] == get(url + "/ready")[0] == get(url + "/")[0] == 200
    assert get(url + "/etc/passwd")[0] == 404
    assert get(url + "/metrics", "HEAD")[2] == b""
    assert get(url + "/metrics", "POST")[0] == 501


def test_a_kafka_client_can_tell_that_it_speaks_http(url: str) -> None:
    host, port = url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=30) as connection:
        connection.sendall(b"\0\0\0\x0a\0\x12\0\3\0\0\0\1\0\0\r\n")
        assert connection.recv(4) == b"HTTP"


def test_a_scrape_gets_through_while_all_places_are_taken_by_idle_connections(url: str) -> None:
    host, port = url.removeprefix("http://").split(":")
    idle = [socket.create_connection((host, int(port)), timeout=30) for _ in range(web.MAX_CONNECTIONS)]
    try:
        assert get(url + "/health")[0] == get(url + "/metrics")[0] == 200
        # The one that has been there longest had to go for it.
        assert idle[0].recv(1) == b""
    finally:
        for connection in idle:
            connection.close()


def test_a_connection_whose_thread_cannot_be_started_gives_its_place_back(monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    def start_no_thread(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", start_no_thread)
        for _ in range(web.MAX_CONNECTIONS):
            with pytest.raises((urllib.error.URLError, ConnectionError)):
                urllib.request.urlopen(url + "/health", timeout=30)
    assert get(url + "/health")[0] == 200
