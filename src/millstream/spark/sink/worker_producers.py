"""The producers of this process: they live as long as the worker, which Spark uses for many tasks.

A new producer id for every task of every micro-batch would fill the brokers' tables: Kafka forgets an id after a day. A producer returns
when everything it took is written, so nothing is in doubt when the next task continues its sequences; one that failed is thrown away, and
the next attempt has a new id and no history (ADR 0020). A worker runs one task at a time, in one thread, so nothing is locked.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic
from typing import Final

from millstream.client.raw_producer import ProducerSettings, RawProducer

_LONGEST_IDLE_S: Final = 600.0
"""A producer that rested longer gets a new id: brokers may have forgotten the old one."""

_resting: dict[ProducerSettings, RawProducer] = {}


@contextmanager
def borrow_producer(settings: ProducerSettings) -> Iterator[RawProducer]:
    """A producer of this process with these settings; one that comes back without an error rests until the next task."""
    producer = _resting.pop(settings, None)
    if producer is not None and monotonic() - producer.last_used > _LONGEST_IDLE_S:
        producer.close()
        producer = None
    producer = producer or RawProducer(settings)
    try:
        yield producer
        producer.flush()
    except BaseException:
        producer.close()
        raise
    _resting[settings] = producer
