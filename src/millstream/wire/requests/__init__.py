"""Kafka's requests as named tuples, a module per API, with their layouts. Written by `codegen.messages`: do not edit."""
