"""One tree of exceptions. Each class that may reach a client carries Kafka's error code.

    MillstreamError
    ├── UsageError                    a person gave a wrong option, address or file: one sentence, exit code 2, no traceback
    │   └── StartupError              the broker cannot start here (port taken, directory in use ...): exit code 1
    ├── CommandFailed                 a command could not do its work (no broker there, no such topic ...): one sentence, exit code 1
    ├── MalformedFrame                bytes that are not Kafka's protocol: the connection is closed, nothing is answered
    └── KafkaError                    becomes the `error_code` (and `error_message`, where there is one) of an answer
        ├── batches    CorruptMessage, InvalidRecord, MessageTooLarge, InvalidTimestamp, UnsupportedCompressionType,
        │              RecordListTooLarge
        ├── producers  OutOfOrderSequenceNumber, DuplicateSequenceNumber, InvalidProducerEpoch, UnknownProducerId,
        │              InvalidTransactionTimeout, TransactionalIdAuthorizationFailed
        ├── places     UnknownTopicOrPartition, UnknownTopicId, InconsistentTopicId, OffsetOutOfRange, OffsetNotAvailable,
        │              NotLeaderOrFollower, LeaderNotAvailable, FencedLeaderEpoch, UnknownLeaderEpoch,
        │              NotEnoughReplicas, NotEnoughReplicasAfterAppend, StorageError
        ├── requests   InvalidRequest, UnsupportedVersion, RequestTimedOut, InvalidRequiredAcks, FetchSessionIdNotFound,
        │              InvalidFetchSessionEpoch, FetchSessionTopicIdError, CoordinatorNotAvailable, UnknownServerError,
        │              MismatchedEndpointType, UnsupportedEndpointType
        ├── groups     CoordinatorLoadInProgress, NotCoordinator, InvalidGroupId, GroupIdNotFound, NonEmptyGroup, GroupMaxSizeReached,
        │              UnknownMemberId, MemberIdRequired, FencedInstanceId, UnreleasedInstanceId, IllegalGeneration, RebalanceInProgress,
        │              FencedMemberEpoch, StaleMemberEpoch, InvalidSessionTimeout, InconsistentGroupProtocol, UnsupportedAssignor,
        │              InvalidRegularExpression, GroupSubscribedToTopic, OffsetMetadataTooLarge, InvalidCommitOffsetSize,
        │              UnstableOffsetCommit
        ├── topics     InvalidTopic, TopicAlreadyExists, TopicDeletionDisabled, InvalidPartitions, InvalidReplicationFactor,
        │              InvalidReplicaAssignment, InvalidConfig, PolicyViolation, NotController
        ├── RetriableError            those that another leader or another moment cures derive from it, as in Kafka
        ├── transactions   those of `transaction_errors`
        └── tools      those of `admin_errors`, which only tools of administration see

Code that decides raises; the handlers turn the error of one partition or topic into fields of the answer.
"""

from collections.abc import Sequence
from typing import ClassVar, NamedTuple


class MillstreamError(Exception):
    """Anything Millstream itself complains about."""


class UsageError(MillstreamError):
    """A person asked for something that cannot be done; the message says what, where and what to do."""


class StartupError(UsageError):
    """The broker cannot start with what it was given."""

    @classmethod
    def for_directory(cls, path: object, error: OSError) -> "StartupError":
        """A data directory cannot be used, because of what the system says."""
        advice = "; start as the user it belongs to, or choose another directory with --data" if isinstance(error, PermissionError) else ""
        return cls(f"the data directory {path} cannot be used: {error.strerror or error}{advice}")


class CommandFailed(MillstreamError):
    """A command of the command line was asked rightly and could not be done; the message says what, where and what to do."""


class MalformedFrame(MillstreamError):
    """The peer does not speak Kafka's protocol, or broke it; the connection has to be closed."""


class RecordError(NamedTuple):
    """Which record of a refused batch was to blame, by its number in the batch, and why."""

    batch_index: int
    message: str | None = None


class KafkaError(MillstreamError):
    """An error that has a code in Kafka's protocol."""

    code: ClassVar[int] = -1
    record_errors: Sequence[RecordError] = ()
    """The records of a batch that are to blame, where records were looked at (KIP-467)."""
    is_of_request: bool = False
    """Whether it could be seen before the log was looked at, so that the answer says nothing of the log."""


class RetriableError(KafkaError):
    """The same request may succeed later, at the same broker or at the partition's new leader."""


class UnknownServerError(KafkaError):
    """A mistake of the broker's own, or one without a code."""


class OffsetOutOfRange(KafkaError):
    """The offset is below the log's start or above its end."""

    code = 1


class CorruptMessage(KafkaError):
    """A batch whose CRC, size or fields contradict its bytes."""

    code = 2


class UnknownTopicOrPartition(RetriableError):
    """No such topic or partition here."""

    code = 3


class LeaderNotAvailable(RetriableError):
    """The partition has no leader at the moment."""

    code = 5


class NotLeaderOrFollower(RetriableError):
    """This broker does not lead the partition."""

    code = 6


class RequestTimedOut(RetriableError):
    """The deadline given by the client passed."""

    code = 7


class MessageTooLarge(KafkaError):
    """The batch is bigger than `max.message.bytes`."""

    code = 10


class OffsetMetadataTooLarge(KafkaError):
    """The text that came with a committed offset is longer than `offset.metadata.max.bytes`."""

    code = 12


class CoordinatorLoadInProgress(RetriableError):
    """The coordinator is still reading its log; ask again."""

    code = 14


class CoordinatorNotAvailable(RetriableError):
    """There is no coordinator of that kind."""

    code = 15


class NotCoordinator(RetriableError):
    """This broker does not coordinate that group; find its coordinator."""

    code = 16


class InvalidTopic(KafkaError):
    """A topic name that is not allowed, or an operation that this topic does not allow."""

    code = 17


class RecordListTooLarge(KafkaError):
    """The batch is bigger than a whole segment."""

    code = 18


class NotEnoughReplicas(RetriableError):
    """Fewer in-sync replicas than `min.insync.replicas`; nothing was written."""

    code = 19


class NotEnoughReplicasAfterAppend(RetriableError):
    """Written, but the in-sync set shrank below `min.insync.replicas` before it was replicated."""

    code = 20


class InvalidRequiredAcks(KafkaError):
    """acks other than -1, 0 and 1."""

    code = 21


class IllegalGeneration(KafkaError):
    """A generation that is over: the member has to join again."""

    code = 22


class InconsistentGroupProtocol(KafkaError):
    """Protocols that the other members of the group do not share."""

    code = 23


class InvalidGroupId(KafkaError):
    """A group id that cannot be."""

    code = 24


class UnknownMemberId(KafkaError):
    """The group has no such member."""

    code = 25


class InvalidSessionTimeout(KafkaError):
    """A session timeout outside `group.min.session.timeout.ms` and `group.max.session.timeout.ms`."""

    code = 26


class RebalanceInProgress(KafkaError):
    """The group is rebalancing: the member has to join again."""

    code = 27


class InvalidCommitOffsetSize(KafkaError):
    """Offsets that are too many for one batch of the topic of offsets."""

    code = 28


class InvalidTimestamp(KafkaError):
    """A timestamp outside the bounds of the topic."""

    code = 32


class UnsupportedVersion(KafkaError):
    """The broker does not answer this version of the API."""

    code = 35


class TopicAlreadyExists(KafkaError):
    """There is a topic of that name."""

    code = 36


class InvalidPartitions(KafkaError):
    """A number of partitions that cannot be."""

    code = 37


class InvalidReplicationFactor(KafkaError):
    """More replicas than brokers, or fewer than one."""

    code = 38


class InvalidReplicaAssignment(KafkaError):
    """An assignment with gaps, unknown brokers or the same broker twice."""

    code = 39


class InvalidConfig(KafkaError):
    """An option that does not exist here, or a value it does not take."""

    code = 40


class NotController(KafkaError):
    """Another broker is the controller."""

    code = 41


class InvalidRequest(KafkaError):
    """A request that contradicts itself."""

    code = 42


class PolicyViolation(KafkaError):
    """Allowed by the protocol, refused by a limit of this broker."""

    code = 44


class OutOfOrderSequenceNumber(KafkaError):
    """A gap in the sequence of an idempotent producer."""

    code = 45


class DuplicateSequenceNumber(KafkaError):
    """A batch that was written so long ago that its offset is no longer remembered."""

    code = 46


class InvalidProducerEpoch(KafkaError):
    """A producer epoch older than the one the log knows."""

    code = 47


class InvalidTransactionTimeout(KafkaError):
    """A transaction timeout above the broker's maximum, or not positive."""

    code = 50


class TransactionalIdAuthorizationFailed(KafkaError):
    """The transactional id may not be used."""

    code = 53


class StorageError(RetriableError):
    """The log directory is offline: a disk error, a failed fsync or a full disk."""

    code = 56


class UnknownProducerId(KafkaError):
    """The log knows nothing of this producer any more."""

    code = 59


class NonEmptyGroup(KafkaError):
    """The group has members."""

    code = 68


class GroupIdNotFound(KafkaError):
    """There is no such group, or it is of the other kind."""

    code = 69


class FetchSessionIdNotFound(KafkaError):
    """The fetch session was evicted or never existed."""

    code = 70


class InvalidFetchSessionEpoch(KafkaError):
    """A fetch session request out of turn."""

    code = 71


class TopicDeletionDisabled(KafkaError):
    """`delete.topic.enable` is off."""

    code = 73


class FencedLeaderEpoch(RetriableError):
    """The client's leader epoch is older than the partition's."""

    code = 74


class UnknownLeaderEpoch(RetriableError):
    """The client's leader epoch is newer than the partition's."""

    code = 75


class UnsupportedCompressionType(KafkaError):
    """A codec that this version of the API must not carry."""

    code = 76


class OffsetNotAvailable(RetriableError):
    """The high watermark of a new leader has not caught up yet."""

    code = 78


class MemberIdRequired(KafkaError):
    """The member has to join again with the id it is given here."""

    code = 79


class GroupMaxSizeReached(KafkaError):
    """The group has as many members as it may have."""

    code = 81


class FencedInstanceId(KafkaError):
    """Another member has taken over this `group.instance.id`."""

    code = 82


class GroupSubscribedToTopic(KafkaError):
    """Offsets of a topic that the group reads cannot be deleted."""

    code = 86


class InvalidRecord(KafkaError):
    """A record or batch that breaks the rules of the topic."""

    code = 87


class UnstableOffsetCommit(KafkaError):
    """There are offsets of transactions that are still open."""

    code = 88


class UnknownTopicId(RetriableError):
    """No topic has this id."""

    code = 100


class InconsistentTopicId(RetriableError):
    """The log on disk belongs to another topic of the same name."""

    code = 103


class FetchSessionTopicIdError(KafkaError):
    """A fetch session that mixes topic names and topic ids."""

    code = 106


class FencedMemberEpoch(KafkaError):
    """A member epoch that the coordinator does not know: the member gives up what it has and joins again."""

    code = 110


class UnreleasedInstanceId(KafkaError):
    """Another member still has this `group.instance.id`."""

    code = 111


class UnsupportedAssignor(KafkaError):
    """The coordinator has no assignor of that name."""

    code = 112


class StaleMemberEpoch(KafkaError):
    """A member epoch that is over; the member learns the new one with its next heartbeat."""

    code = 113


class MismatchedEndpointType(KafkaError):
    """Addresses were asked for that this listener does not know."""

    code = 114


class UnsupportedEndpointType(KafkaError):
    """A kind of address that does not exist."""

    code = 115


class InvalidRegularExpression(KafkaError):
    """A subscription that is no regular expression here."""

    code = 128
