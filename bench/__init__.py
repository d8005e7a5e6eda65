"""Benchmarks: Penstock and its peers on the same machine, with the same clients and the same work, in one run. Never part of the tests."""
