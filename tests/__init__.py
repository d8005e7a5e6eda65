"""Millstream's tests; a package so that tests can share `tests.brokers` and its neighbours."""
