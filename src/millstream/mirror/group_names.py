"""What the consumer groups of a mirror are called, at its source. Pure.

millstream-mirror-NAME           has committed how far the mirror has come, and never has members: any process may commit to it
millstream-mirror-NAME-members   has the processes as members, which say who copies what, and never commits: its lag means nothing
"""

from typing import Final

OWN_PREFIX: Final = "millstream-mirror-"
_MEMBERS: Final = "-members"


def progress_group(mirror: str) -> str:
    """The group that has committed how far a mirror has come."""
    return f"{OWN_PREFIX}{mirror}"


def members_of(progress: str) -> str:
    """The group whose members share the work of the mirror with this progress."""
    return f"{progress}{_MEMBERS}"


def has_members_alone(group: str) -> bool:
    """Whether a group is called like one that shares work; a mirror may be called so, and then it has committed offsets."""
    return group.startswith(OWN_PREFIX) and group.endswith(_MEMBERS)
