import gzip
import os

import pytest

from millstream.monitoring import publisher as publisher_module
from millstream.monitoring.lag import Lags
from millstream.monitoring.publisher import Publisher
from tests.unit.monitoring.samples import partition_sample, sample_of, take
from tests.unit.monitoring.test_lag import ScriptedReader


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def publisher(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> Publisher:
    monkeypatch.setattr(publisher_module, "FIRST_SAMPLE_S", 0.0)
    return Publisher(Lags(ScriptedReader()), interval_s=10, version="1.2", pid=os.getpid(), clock=clock, monotonic=clock)


def test_page_shows_the_last_sample_and_how_old_it_is(publisher: Publisher, clock: Clock) -> None:
    take(publisher, sample_of([partition_sample("a", end=5)]))
    take(publisher, sample_of([partition_sample("a", end=7)]))
    clock.now += 4
    text = publisher.metrics(compressed=False).body.decode()
    assert 'kafka_topic_partition_current_offset{topic="a",partition="0"} 7\n' in text
    assert "millstream_sample_age_seconds 4\n" in text
    assert 'millstream_build_info{version="1.2"} 1\n' in text
    assert "\nprocess_open_fds " in text


def test_compressed_page_is_one_gzip_stream_with_the_same_text(publisher: Publisher) -> None:
    take(publisher, sample_of([partition_sample("a", end=5)]))
    for _ in range(2):
        page = publisher.metrics(compressed=True)
        assert page.is_compressed
        without_process = publisher.metrics(compressed=False).body.partition(b"# HELP process_")[0]
        assert gzip.decompress(page.body).partition(b"# HELP process_")[0] == without_process


def test_without_a_sample_everything_says_so(publisher: Publisher) -> None:
    for page in (publisher.metrics(compressed=False), publisher.health(), publisher.ready()):
        assert page.status == 503
        assert b"sample" in page.body


def test_broker_whose_loop_does_not_get_round_is_not_healthy(publisher: Publisher, clock: Clock) -> None:
    take(publisher, sample_of())
    assert (publisher.health().status, publisher.ready().status) == (200, 200)
    clock.now += 31
    assert (publisher.health().status, publisher.ready().status) == (503, 503)
    assert b"31 s old" in publisher.health().body
    take(publisher, sample_of())
    assert publisher.health().status == 200


def test_broker_that_leads_nothing_is_healthy_and_not_ready(publisher: Publisher) -> None:
    take(publisher, sample_of(not_ready="the controller has not dealt with this broker yet"))
    assert publisher.health().status == 200
    assert (publisher.ready().status, publisher.ready().body) == (
        503,
        b'{"status": "not ready", "reason": "the controller has not dealt with this broker yet"}\n',
    )


def test_probes_do_not_wait_for_other_brokers_that_are_asked_for_lags(publisher: Publisher, clock: Clock) -> None:
    publisher.note(sample_of())
    assert (publisher.health().status, publisher.ready().status) == (200, 200)
    page = publisher.metrics(compressed=False)
    assert (page.status, page.body) == (503, b"the lags of its groups are not known after 0 s\n")
    clock.now += 20
    publisher.show(publisher.note(sample_of()))
    clock.now += 25
    publisher.note(sample_of(not_ready="it leads nothing"))
    assert publisher.health().status == 200
    assert b"it leads nothing" in publisher.ready().body
    assert b"millstream_sample_age_seconds 25\n" in publisher.metrics(compressed=False).body
