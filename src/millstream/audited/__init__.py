"""Clients that count: what a tier of the audit is made of, and wrappers for confluent-kafka, kafka-python and aiokafka (docs/audit.md)."""
