"""File descriptors: take as many as the system allows, and know how many partitions they are good for."""

import resource

RESERVE = 512
"""For clients, sealed segments that are being read, and everything else."""
PER_PARTITION = 3
UNLIMITED = 10_240
"""What an unlimited process is taken to have."""


def raise_descriptor_limit() -> int:
    """Raise the soft limit to the hard one; returns the limit in force."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard == resource.RLIM_INFINITY:
        # Not a number to raise anything to: systems that say so still have a limit of their own somewhere.
        return max(soft, UNLIMITED)
    if soft < hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard


def max_partitions(descriptor_limit: int) -> int:
    """How many partitions may be open at once."""
    return max(1, (descriptor_limit - RESERVE) // PER_PARTITION)
