"""Against a real HTTP server: what is sent, what is tried again, and that the auditor never waits for it."""

import json
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from millstream.audit.alarm import INCOMPLETE, Alarm, AlarmState
from millstream.audit.reports.report import Kind
from millstream.audit.topic_head import Tier
from millstream.audit.verdict import Place, Verdict
from millstream.auditor.alarm_sinks import AlarmSinks
from millstream.auditor.webhook import Webhook, check_webhook
from millstream.errors import UsageError
from tests.waiting import wait_until

NO_PAUSES = (0.0, 0.0)
LOSS = Place("broker", 3, 10, ((40, 50),))
ALARM = Alarm(
    INCOMPLETE, "orders", Tier("billing", Kind.CONSUMER, "live"), 600_000, "lost", AlarmState.RAISED, Verdict.MISSING, 100, 10, (LOSS,)
)


class Endpoint:
    """Takes documents; answers with the given codes first, then with 200."""

    def __init__(self) -> None:
        self.documents: list[Any] = []
        self.types: set[str | None] = set()
        self.codes: list[int] = []
        self.may_answer = threading.Event()
        self.may_answer.set()
        endpoint = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                endpoint.documents.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
                endpoint.types.add(self.headers["Content-Type"])
                endpoint.may_answer.wait(30)
                self.send_response(endpoint.codes.pop(0) if endpoint.codes else 200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                """Nothing is logged."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/hook?token=secret"
        self._thread = threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True)
        self._thread.start()

    def close(self) -> None:
        self.may_answer.set()
        self.server.shutdown()
        self.server.server_close()
        self._thread.join(10)


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    made = Endpoint()
    yield made
    made.close()


def delivered(webhook: Webhook, is_done: Callable[[], object]) -> None:
    wait_until(is_done, "the endpoint was asked")
    webhook.close(10)


def test_an_alarm_is_sent_as_json(endpoint: Endpoint) -> None:
    sinks = AlarmSinks(Webhook(endpoint.url))
    sinks(ALARM)
    sinks.close()
    assert endpoint.types == {"application/json"}
    assert endpoint.documents == [
        {
            "kind": "incomplete",
            "state": "raised",
            "topic": "orders",
            "bucket": "1970-01-01T00:10:00Z",
            "tier": "billing",
            "cluster": "live",
            "verdict": "missing",
            "expected": 100,
            "missing": 10,
            "losses": [{"before": "broker", "partition": 3, "count": 10, "offsets": [{"from": 40, "to": 49}]}],
            "message": "lost",
        }
    ]


def test_an_error_that_may_pass_is_tried_again_and_the_order_is_kept(endpoint: Endpoint) -> None:
    endpoint.codes += [503, 429]
    webhook = Webhook(endpoint.url, pauses_s=NO_PAUSES)
    for number in range(3):
        webhook.post({"n": number})
    delivered(webhook, lambda: len(endpoint.documents) == 5)
    assert [document["n"] for document in endpoint.documents] == [0, 0, 0, 1, 2]
    assert webhook.failed == 0


@pytest.mark.parametrize(("codes", "attempts"), [([500] * 9, 3), ([400], 1), ([404], 1)])
def test_attempts_are_bounded_and_what_is_refused_is_said_without_the_token(
    endpoint: Endpoint, codes: list[int], attempts: int, caplog: pytest.LogCaptureFixture
) -> None:
    endpoint.codes += codes
    webhook = Webhook(endpoint.url, pauses_s=NO_PAUSES)
    webhook.post({})
    wait_until(lambda: webhook.failed == 1, "it is given up")
    webhook.close(10)
    assert len(endpoint.documents) == attempts
    assert f"the webhook at 127.0.0.1 did not take an alarm: it answered {codes[0]}" in caplog.text
    assert "secret" not in caplog.text


def test_a_slow_endpoint_holds_nothing_up_and_what_does_not_fit_is_dropped(endpoint: Endpoint, caplog: pytest.LogCaptureFixture) -> None:
    endpoint.may_answer.clear()
    webhook = Webhook(endpoint.url, most=5)
    webhook.post({"n": 0})
    wait_until(lambda: endpoint.documents, "the first is on its way")
    began = time.process_time()
    for number in range(1, 1_000):
        webhook.post({"n": number})
    assert time.process_time() - began < 5
    assert webhook.failed == 994
    assert caplog.text.count("5 alarms wait for the webhook at 127.0.0.1") == 1
    endpoint.may_answer.set()
    delivered(webhook, lambda: len(endpoint.documents) == 6)


def test_a_dead_endpoint_is_given_up_after_its_attempts(endpoint: Endpoint, caplog: pytest.LogCaptureFixture) -> None:
    endpoint.close()
    webhook = Webhook(endpoint.url, pauses_s=NO_PAUSES)
    webhook.post({})
    wait_until(lambda: webhook.failed == 1, "it is given up")
    webhook.close(10)
    assert "Connection refused" in caplog.text


def test_closing_does_not_wait_for_pauses(endpoint: Endpoint, caplog: pytest.LogCaptureFixture) -> None:
    endpoint.codes += [503] * 9
    webhook = Webhook(endpoint.url, pauses_s=(3_600.0,))
    webhook.post({})
    wait_until(lambda: endpoint.documents, "the first attempt")
    webhook.close(30)
    assert webhook.failed == 1


@pytest.mark.parametrize("url", ["", "example.org", "ftp://example.org/x", "http://"])
def test_what_is_no_address_is_refused(url: str) -> None:
    with pytest.raises(UsageError, match="expected http://HOST"):
        check_webhook(url)
