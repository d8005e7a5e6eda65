"""What all tests share: how hypothesis draws, how much the differential run does, what only --long runs, and the clock that tests move."""

import gc
import signal
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

from tests.manual_clock import ManualClock

# The same examples in every run: a test that fails on one machine fails on all of them. New examples are drawn on purpose, with
# `--hypothesis-profile=explore`. Two cores are shared with brokers, so no example has a deadline of its own; pytest-timeout has one.
settings.register_profile("deterministic", derandomize=True, deadline=None, database=None, suppress_health_check=[HealthCheck.too_slow])
# What scripts/check takes the time for; scripts/test draws all hundred.
settings.register_profile("brief", settings.get_profile("deterministic"), max_examples=30)
settings.register_profile("explore", deadline=None, max_examples=2_000, print_blob=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("deterministic")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--long", action="store_true", help="also run the tests that take minutes")
    group = parser.getgroup("differential", "the differential run against Apache Kafka (tests/differential)")
    group.addoption("--seeds", type=int, default=1, help="how many seeds each scenario runs with")
    group.addoption("--first-seed", type=int, default=1, help="the first of them")
    group.addoption("--steps", type=int, default=40, help="how many steps each seed takes")


def pytest_configure() -> None:
    # A shell starts what it runs in the background (`scripts/test` does) with SIGINT ignored, and so would be all processes of the tests.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Iterator[None]:
    """Collect without the garbage collector, never let it look at thousands of tests and modules again, and seldom at what tests make."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(20_000, 20, 50)
        gc.enable()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not config.getoption("--long"):
        for item in items:
            if item.get_closest_marker("long") is not None:
                item.add_marker(pytest.mark.skip(reason="takes minutes: --long runs it"))


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()
