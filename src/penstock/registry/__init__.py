"""Schemas: Confluent's REST API over a compacted topic, and serialisers for Avro."""
