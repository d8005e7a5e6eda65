"""Formats of keys and values: binary, string, Avro, JSON, both ways."""
