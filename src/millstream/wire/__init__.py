"""Bytes to values and back, without any input or output: frames, record batches, compression, and every message of Kafka's."""
