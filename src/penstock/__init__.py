"""Penstock: a Kafka for Python people. The public names of the client live here, loaded when first asked for."""
