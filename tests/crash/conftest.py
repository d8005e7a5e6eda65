"""Fixtures for crashes of real processes: brokers of a test's own, and a disk that can fill up or lose power."""

from tests.brokers import start_broker
from tests.crash.loop_disk import loop_disk

__all__ = ["loop_disk", "start_broker"]
