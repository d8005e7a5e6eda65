"""The errors of transactions: a branch of the tree in `errors`.

KafkaError
└── transactions   InvalidTxnState, InvalidProducerIdMapping, ConcurrentTransactions, TransactionCoordinatorFenced, ProducerFenced,
                   TransactionalIdNotFound, TransactionAbortable, OperationNotAttempted, TopicAuthorizationFailed, Unverified
"""

from millstream.errors import KafkaError, RetriableError


class InvalidTxnState(KafkaError):
    """What was asked for cannot be done in the state that the transaction is in."""

    code = 48


class Unverified(InvalidTxnState):
    """A transactional batch that begins a transaction in its log: whether there is one, only the coordinator knows."""


class InvalidProducerIdMapping(KafkaError):
    """The transactional id belongs to another producer id, or to none."""

    code = 49


class ConcurrentTransactions(RetriableError):
    """The last transaction of the transactional id is still being ended."""

    code = 51


class TransactionCoordinatorFenced(KafkaError):
    """A marker of a transaction from a coordinator that is none any more."""

    code = 52


class TopicAuthorizationFailed(KafkaError):
    """The client may not write to the topic in a transaction."""

    code = 29


class OperationNotAttempted(KafkaError):
    """Nothing was done, because another part of the request was refused."""

    code = 55


class ProducerFenced(KafkaError):
    """Another producer has the transactional id by now, or the coordinator has aborted the transaction."""

    code = 90


class TransactionalIdNotFound(KafkaError):
    """The coordinator knows nothing of the transactional id."""

    code = 105


class TransactionAbortable(KafkaError):
    """The transaction cannot be committed, only aborted; the producer can go on with the next one."""

    code = 120
