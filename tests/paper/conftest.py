"""Fixtures for the claims of the paper: the broker of `tests.brokers` and topics of a test's own."""

from tests.brokers import broker, start_broker
from tests.topics import topic

__all__ = ["broker", "start_broker", "topic"]
