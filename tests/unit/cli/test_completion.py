"""Tab, as the shells ask: the words so far in the environment, names on stdout."""

import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from millstream import Producer
from millstream.testing import Broker
from tests.unit.cli.conftest import Millstream


class Tab:
    """Asks for what may follow."""

    def __init__(self, millstream: Millstream, monkeypatch: pytest.MonkeyPatch) -> None:
        self._millstream = millstream
        self._monkeypatch = monkeypatch

    def __call__(self, *words: str) -> list[str]:
        self._monkeypatch.setenv("_MILLSTREAM_COMPLETE", "complete_bash")
        self._monkeypatch.setenv("COMP_WORDS", " ".join(["millstream", *words]))
        self._monkeypatch.setenv("COMP_CWORD", str(len(words)))
        outcome = self._millstream()
        assert outcome.err == ""
        return outcome.out.split()


@pytest.fixture
def tab(millstream: Millstream, monkeypatch: pytest.MonkeyPatch) -> Tab:
    return Tab(millstream, monkeypatch)


@pytest.fixture
def brokers(millstream_broker: Broker, millstream: Millstream) -> str:
    address = millstream_broker.bootstrap_servers
    for topic in ("tab-one", "tab-two", "other-tab"):
        assert millstream("topic", "create", topic, "--if-not-exists", "-b", address).code == 0
    assert millstream("group", "seek", "tab-group", "0", "-t", "tab-one", "--execute", "-b", address).code == 0
    return address


def test_topics_and_groups_are_completed(tab: Tab, brokers: str) -> None:
    assert tab("consume", "-b", brokers, "tab-") == ["tab-one", "tab-two"]
    assert tab("topic", "describe", "-b", brokers, "tab-o") == ["tab-one"]
    assert tab("group", "seek", "-b", brokers, "tab-") == ["tab-group"]


def test_transactional_ids_are_completed(tab: Tab, brokers: str) -> None:
    with Producer(brokers, transactional_id="tab-id"):
        assert tab("txn", "describe", "-b", brokers, "tab-") == ["tab-id"]
        assert tab("txn", "abort", "-b", brokers, "tab-") == ["tab-id"]


def test_brokers_are_those_of_the_environment_or_of_a_profile(
    tab: Tab, brokers: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("MILLSTREAM_BROKERS", brokers)
    assert tab("consume", "tab-t") == ["tab-two"]
    monkeypatch.delenv("MILLSTREAM_BROKERS")
    profiles = tmp_path / "profiles.toml"
    profiles.write_text(f'[local]\nbrokers = "{brokers}"\n')
    monkeypatch.setenv("MILLSTREAM_PROFILES", str(profiles))
    assert tab("consume", "--profile", "local", "tab-t") == ["tab-two"]
    assert tab("consume", "--profile", "no-such", "-b", "127.0.0.1:1", "tab-t") == []


@pytest.fixture
def silent_port() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def test_without_a_broker_there_are_no_names_and_no_complaints(tab: Tab, silent_port: int) -> None:
    assert tab("consume", "-b", "127.0.0.1:1", "t") == []
    assert tab("group", "describe", "-b", "no/address", "t") == []
    started = time.monotonic()
    assert tab("consume", "-b", f"127.0.0.1:{silent_port}", "t") == []
    assert time.monotonic() - started < 30  # a second, and whatever a busy machine adds
