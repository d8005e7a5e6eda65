"""Memory of a virtual machine that its host has taken back while it was free costs whoever touches it first: microseconds per page, counted
as system time of a broker that writes to the page cache. Who runs after a pause would pay for that and who runs next would not; so before
each round memory is touched and freed again, for every peer alike.
"""

import mmap


def fetch_from_host(megabytes: int) -> None:
    """Touch so much memory and free it."""
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | mmap.MAP_POPULATE
    with mmap.mmap(-1, megabytes << 20, flags=flags):
        pass
