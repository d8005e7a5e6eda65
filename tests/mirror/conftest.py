"""Fixtures of the mirror's tests: brokers of `tests.brokers`."""

from tests.brokers import broker, start_broker

__all__ = ["broker", "start_broker"]
