"""Talking to brokers: connections of our own, metadata, and the producer and consumer of the paper."""
