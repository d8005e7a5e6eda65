"""The connections and producers of this process: Spark unpickles a fresh reader or writer for each task, but the worker process stays, and
so do they.

One `Cluster` per set of brokers, client name and login. All is closed when the process ends in order, as the driver does; a process that
was forked begins without any, because the sockets are its parent's. A new producer id for every task of every micro-batch would fill the
brokers' tables, because Kafka forgets an id only after a day: a producer returns when everything it took is written, so nothing is in doubt
when the next task continues its sequences; one that failed is thrown away, and the next attempt has a new id and no history (ADR 0020). A
worker process runs one task at a time, in one thread, so nothing is locked.
"""

import atexit
import os
from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic
from typing import TYPE_CHECKING, Final, Protocol

from millstream.client.cluster import Cluster
from millstream.client.errors import BrokerUnavailable
from millstream.client.retry import retry
from millstream.client.security.client_security import ClientSecurity

if TYPE_CHECKING:
    from millstream.client.admin.transaction_admin import TransactionAdmin
    from millstream.client.raw_producer import ProducerSettings, RawProducer
    from millstream.client.transactions import Transactions

_LONGEST_IDLE_S: Final = 600.0
"""A producer that was idle for longer gets a new id: brokers may have forgotten the old one."""

_ClusterName = tuple[str, str, int, ClientSecurity]

_clusters: dict[_ClusterName, Cluster] = {}
_transactions: "dict[ProducerSettings, Transactions]" = {}
_admins: "dict[ProducerSettings, TransactionAdmin]" = {}
_idle: "dict[ProducerSettings, RawProducer]" = {}
_begun: set[str] = set()


class ConnectionSettings(Protocol):
    """What the options of a read and those of a write both say."""

    @property
    def bootstrap_servers(self) -> str: ...
    @property
    def client_id(self) -> str: ...
    @property
    def request_timeout_ms(self) -> int: ...
    @property
    def security(self) -> ClientSecurity: ...


def cluster_for(settings: ConnectionSettings) -> Cluster:
    """The cluster of these settings, connected already if this process used it before."""
    name = settings.bootstrap_servers, settings.client_id, settings.request_timeout_ms, settings.security
    cluster = _clusters.get(name)
    if cluster is None:
        timeout_s = settings.request_timeout_ms / 1000
        cluster = _clusters[name] = Cluster(
            settings.bootstrap_servers, client_id=settings.client_id, timeout_s=timeout_s, security=settings.security
        )
    return cluster


def transactions_for(settings: "ProducerSettings") -> "Transactions":
    """The transactions of the cluster that a producer with these settings writes to."""
    from millstream.client.transactions import Transactions  # only who writes exactly once needs it

    found = _transactions.get(settings)
    if found is None:
        found = _transactions[settings] = Transactions(cluster_for(settings), timeout_s=settings.delivery_timeout_ms / 1000)
    return found


def await_brokers(settings: "ProducerSettings") -> None:
    """Wait for the first answer to this process no longer than for a topic: a wrong address is found out before `delivery.timeout.ms` is
    over. Who was answered once is patient with brokers that restart."""
    limit = f"{settings.option('max.block.ms')} = {settings.max_block_ms}"
    try:
        retry(transactions_for(settings).version, timeout_s=settings.max_block_ms / 1000)
    except BrokerUnavailable as error:
        raise BrokerUnavailable(f"no broker answered within {limit}: {error}") from None


def transaction_admin_for(settings: "ProducerSettings") -> "TransactionAdmin":
    """Who looks at them."""
    from millstream.client.admin.transaction_admin import TransactionAdmin  # only the driver of who writes exactly once needs it

    found = _admins.get(settings)
    if found is None:
        found = _admins[settings] = TransactionAdmin(cluster_for(settings), timeout_s=settings.delivery_timeout_ms / 1000)
    return found


def begins(name: str) -> bool:
    """Whether this process is asked for the first time about what has this name."""
    is_new = name not in _begun
    _begun.add(name)
    return is_new


@contextmanager
def borrow_producer(settings: "ProducerSettings") -> "Iterator[RawProducer]":
    """A producer of this process with these settings; one that comes back without an error is kept for the next task."""
    from millstream.client.raw_producer import RawProducer  # only who writes needs it

    producer = _idle.pop(settings, None)
    if producer is not None and monotonic() - producer.last_used > _LONGEST_IDLE_S:
        producer.close()
        producer = None
    producer = producer or RawProducer(settings)
    try:
        yield producer
        producer.flush()
    except BaseException:
        producer.close()
        raise
    _idle[settings] = producer


@atexit.register
def _close_all() -> None:
    for producer in _idle.values():
        producer.close()
    for cluster in _clusters.values():
        cluster.close()


def _forget_all() -> None:
    _clusters.clear()
    _transactions.clear()
    _admins.clear()
    _idle.clear()
    _begun.clear()


os.register_at_fork(after_in_child=_forget_all)
