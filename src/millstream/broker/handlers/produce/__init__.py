"""Produce: from a request to appended batches and its answer."""
