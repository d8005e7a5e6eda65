"""What a broker's process and the one that started it say to each other, over the two pipes between them.

    parent -> child    int32 size | pickle of an Order; then one byte for each sample, or sign of life, that is wanted. At the end the
                       parent is gone
    child -> parent    parts, as `broker.metrics.sample` frames them: `ready`, or `failed` with a sentence; `settled`, when clients are told
                       of all brokers here, and of what they lead; later the parts of samples, and `alive`

Both ends are the same interpreter on the same machine, started one by the other.
"""

import os
import pickle
from typing import Final, NamedTuple

from millstream.broker.metrics.sample import PART_SIZE
from millstream.broker.server_options import ServerOptions

READY: Final = "ready"
SETTLED: Final = "settled"
FAILED: Final = "failed"
ALIVE: Final = "alive"
SAMPLE_WANTED: Final = b"s"
SIGN_WANTED: Final = b"a"


class Order(NamedTuple):
    """What a child is to be."""

    options: ServerOptions
    log_level: str
    log_format: str
    brokers: int = 1
    """How many there are to be on this machine."""

    def encode(self) -> bytes:
        """As it is written to the child."""
        data = pickle.dumps(self._replace(options=self.options._replace(options=dict(self.options.options))))
        return PART_SIZE.pack(len(data)) + data


def read_order(descriptor: int) -> Order | None:
    """The order at the other end of the pipe; None if the parent is gone before it was said."""
    head = _read(descriptor, PART_SIZE.size)
    data = b"" if head is None else _read(descriptor, PART_SIZE.unpack(head)[0])
    if not data:
        return None
    order = pickle.loads(data)  # noqa: S301 -- written by the process that started this one
    assert isinstance(order, Order)
    return order


def _read(descriptor: int, size: int) -> bytes | None:
    """So many bytes and no more: what follows is for the event loop to read."""
    data = b""
    while len(data) < size:
        more = os.read(descriptor, size - len(data))
        if not more:
            return None
        data += more
    return data
