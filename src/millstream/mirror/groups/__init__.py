"""Committed offsets of consumer groups, copied to the target: those of Kafka's groups, and those of the paper's."""
