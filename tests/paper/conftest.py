"""Fixtures for the claims of the paper: the broker of `tests.brokers`, topics of a test's own, both kinds of coordination."""

from tests.brokers import broker, start_broker
from tests.paper.consumer_processes import start_consumer
from tests.paper.sites import own_site, shared_site, site
from tests.topics import topic

__all__ = ["broker", "own_site", "shared_site", "site", "start_broker", "start_consumer", "topic"]
