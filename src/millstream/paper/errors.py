"""What can go wrong for the paper's producer and consumer, beyond what their connections and brokers say.

    ClientError                    (`millstream.client.errors`)
    ├── ZooKeeperUnavailable       no ZooKeeper, or none that answers any more
    ├── ConsumerIdTaken            another living consumer of the group has this id
    ├── OffsetExpired              the next message to read is not there any more, and the consumer is set to say so
    ├── ConsumerClosed             the consumer or stream has been closed
    ├── TransactionAborted         a transaction could not be committed; nothing of it is visible, and it can be done again
    └── TransactionInDoubt         the commit of a transaction was sent and not answered

A producer that another one with its transactional id has fenced raises `ProducerFenced` (`millstream.transaction_errors`).

Every message says what was wrong, where, and what to do.
"""

from millstream.client.errors import ClientError


class ZooKeeperUnavailable(ClientError):
    """The coordination cannot be reached."""


class ConsumerIdTaken(ClientError):
    """Two consumers of a group cannot have one id: each would take the other's partitions for its own."""


class OffsetExpired(ClientError):
    """The next message to read was removed by retention, or was never there."""


class ConsumerClosed(ClientError):
    """Nothing can be done with a consumer that has been closed."""


class TransactionAborted(ClientError):
    """A transaction was aborted instead of committed: readers of committed data see nothing of it. The producer can begin another."""


class TransactionInDoubt(ClientError):
    """Whether a transaction was committed is not known: its commit was not answered in time. A new producer with the id ends the doubt."""
