"""`millstream txn`: transactions of any Kafka."""
