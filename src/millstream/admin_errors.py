"""The errors that only tools of administration see: the last branch of the tree in `errors`.

KafkaError
└── tools      SecurityDisabled, PreferredLeaderNotAvailable, EligibleLeadersNotAvailable, ElectionNotNeeded, NoReassignmentInProgress,
               ResourceNotFound, DuplicateResource, ReplicaNotAvailable, LogDirNotFound
"""

from millstream.errors import KafkaError, RetriableError


class SecurityDisabled(KafkaError):
    """There is no authorizer, so there are no access rules to look at or to change."""

    code = 54


class PreferredLeaderNotAvailable(KafkaError):
    """The replica that should lead is not there."""

    code = 80


class EligibleLeadersNotAvailable(KafkaError):
    """No replica is there that could lead."""

    code = 83


class ElectionNotNeeded(KafkaError):
    """The one who should lead leads already."""

    code = 84


class NoReassignmentInProgress(KafkaError):
    """The partition is not being moved, so there is nothing to cancel."""

    code = 85


class ResourceNotFound(KafkaError):
    """There is no such user, rule or other resource."""

    code = 91


class DuplicateResource(KafkaError):
    """The same resource is named twice."""

    code = 92


class ReplicaNotAvailable(RetriableError):
    """This broker keeps no replica of the partition, for now."""

    code = 9


class LogDirNotFound(KafkaError):
    """The broker has no data directory at that path."""

    code = 57
