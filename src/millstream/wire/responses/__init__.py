"""Kafka's responses as named tuples, a module per API, with their layouts. Written by `codegen.messages`: do not edit."""
