"""Exactly once, with real clients and real processes that are killed. Also against Apache Kafka (`MILLSTREAM_TEST_PEER=kafka`)."""
