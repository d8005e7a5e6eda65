"""Rows of Spark into topics."""
