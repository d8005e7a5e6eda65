"""Streaming jobs on Spark: each is a small function that starts a query, and `runner` runs it."""
