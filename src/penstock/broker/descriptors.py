"""File descriptors: take as many as the system allows, and know how many partitions they are good for."""

import resource

RESERVE = 512
"""For clients, sealed segments that are being read, and everything else."""
PER_PARTITION = 3


def raise_descriptor_limit() -> int:
    """Raise the soft limit to the hard one; returns the limit in force."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard


def max_partitions(descriptor_limit: int) -> int:
    """How many partitions may be open at once."""
    return max(1, (descriptor_limit - RESERVE) // PER_PARTITION)
