"""Fixtures: a broker (Millstream, or Kafka with MILLSTREAM_TEST_PEER=kafka), registries on it, and names of a test's own."""

import itertools

import pytest

from tests.brokers import broker, start_broker
from tests.registry.registry_process import registry, start_registry

__all__ = ["broker", "registry", "start_broker", "start_registry", "subject"]

NUMBERS = itertools.count(1)


@pytest.fixture
def subject() -> str:
    """A subject that no other test uses."""
    return f"subject-{next(NUMBERS)}"
