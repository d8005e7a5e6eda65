"""Spark reads and writes topics: real Spark, a real broker."""
