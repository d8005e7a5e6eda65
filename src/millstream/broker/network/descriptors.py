"""File descriptors: take as many as the system allows, and know what they are good for.

    the limit of the process
      = own        listening sockets, locks, the journal, pipes
      + reserve    files that are opened for a moment: indexes, checkpoints, flushes, sealed segments that are read
      + internal   one for each partition of the topics that the broker makes for itself: without them no group works
      + clients of the embedded coordination
      + one for each partition that is written to (one without writers costs none)
      + one for each connection

Partitions and connections share what the others leave; a quarter of the limit is kept for each of the two, however many there are of the
other. A connection that would go beyond that is refused before it takes what a file needs, and so is a new partition.
"""

import resource
from typing import NamedTuple

OWN = 32
MOST_RESERVE = 512
LEAST_RESERVE = 64
MOST_COORDINATION_CLIENTS = 1_000
UNLIMITED = 10_240
"""What an unlimited process is taken to have."""


class Descriptors(NamedTuple):
    """How the descriptors of a process are shared out."""

    limit: int
    internal_partitions: int

    @property
    def reserve(self) -> int:
        """For files that are opened for a moment."""
        return min(MOST_RESERVE, max(LEAST_RESERVE, self.limit // 8))

    @property
    def first_spare(self) -> int:
        """From this one on logs do not get them, however many are written to: else no other broker could be asked to lead these."""
        return self.limit - self.reserve // 4

    @property
    def coordination_clients(self) -> int:
        """How many clients the embedded coordination may have."""
        return min(MOST_COORDINATION_CLIENTS, max(4, self.limit // 16))

    def max_connections(self, partitions: int) -> int:
        """How many connections may be open beside so many logs."""
        return max(4, self._shared - max(partitions - self.internal_partitions, self.limit // 4))

    def max_partitions(self, connections: int) -> int:
        """How many partitions there may be beside so many connections; those of internal topics are not counted."""
        return max(1, self._shared - max(connections, self.limit // 4))

    @property
    def _shared(self) -> int:
        return self.limit - OWN - self.reserve - self.internal_partitions - self.coordination_clients


def raise_descriptor_limit() -> int:
    """Raise the soft limit to the hard one; returns the limit in force."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard == resource.RLIM_INFINITY:
        # Not a number to raise anything to: systems that say so still have a limit of their own somewhere.
        return max(soft, UNLIMITED)
    if soft < hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard
