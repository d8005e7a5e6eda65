"""Confluent's REST API: one module per family of routes, and how HTTP is spoken."""
