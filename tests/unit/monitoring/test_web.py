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
from tests.unit.monitoring.samples import partition_sample, sample_of
from tests.unit.monitoring.test_lag import ScriptedReader


@pytest.fixture
def url() -> Iterator[str]:
    publisher = Publisher(Lags(ScriptedReader()), interval_s=600, version="1.2")
    publisher.take(sample_of([partition_sample("a", end=5)]))
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


def test_there_are_so_many_connections_and_no_more(url: str) -> None:
    host, port = url.removeprefix("http://").split(":")
    opened = [socket.create_connection((host, int(port)), timeout=30) for _ in range(web.MAX_CONNECTIONS + 1)]
    try:
        # Those that were taken wait for a request; the last one is closed.
        assert opened[-1].recv(1) == b""
    finally:
        for connection in opened:
            connection.close()
