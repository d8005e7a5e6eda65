"""Compiled code: records, Avro and batches."""
