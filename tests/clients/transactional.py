"""Transactions that were committed and aborted, for those who read them."""

from collections.abc import Sequence

from confluent_kafka import Producer


def transact(brokers: str, topic: str, transactions: Sequence[tuple[Sequence[bytes], bool]], *, transactional_id: str) -> None:
    """Write transactions with confluent-kafka, each with its values, committed or aborted: aborted data is really in the log."""
    producer = Producer({"bootstrap.servers": brokers, "transactional.id": transactional_id})
    producer.init_transactions(60)
    for values, is_committed in transactions:
        producer.begin_transaction()
        for value in values:
            producer.produce(topic, value, partition=0)
        producer.flush(60)
        if is_committed:
            producer.commit_transaction(60)
        else:
            producer.abort_transaction(60)
