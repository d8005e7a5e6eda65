"""Avro messages to Arrow columns and back."""
