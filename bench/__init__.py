"""Benchmarks: Millstream and its peers on one machine, with the same clients and the same work, in one run. Never part of the tests."""
