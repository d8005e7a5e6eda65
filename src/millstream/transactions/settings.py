"""What a broker's options say about transactions, as one value that the machine reads.

Each field is Kafka's option of the same name; the defaults are those of Kafka 4.2. They hold as long as the broker runs.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionSettings:
    """Limits and times of transactions."""

    max_timeout_ms: int = 900_000
    """`transaction.max.timeout.ms`"""
    transactional_id_expiration_ms: int = 7 * 24 * 60 * 60_000
    """`transactional.id.expiration.ms`"""
    abort_interval_ms: int = 10_000
    """`transaction.abort.timed.out.transaction.cleanup.interval.ms`"""
    expiration_interval_ms: int = 3_600_000
    """`transaction.remove.expired.transaction.cleanup.interval.ms`"""
    max_aborted_at_once: int = 200
    """Transactions that one tick aborts, so that others do not wait for it; Kafka aborts all."""
    max_expired_at_once: int = 1_000
    """Transactional ids that one tick forgets, so that others do not wait for it; Kafka fills one batch."""
