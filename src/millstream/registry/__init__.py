"""Schemas: Confluent's registry API over a compacted topic, its Avro rules, a client of it and Avro serialisers."""
