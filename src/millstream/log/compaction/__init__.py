"""Compaction: the latest value of each key."""
