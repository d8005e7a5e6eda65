"""Which topics a cluster has: what the tables of a query may be called."""

from collections.abc import Mapping

from millstream.client.cluster import Cluster
from millstream.client.codecs.metadata import metadata_request, read_metadata
from millstream.client.security.client_security import ClientSecurity


def topic_names(brokers: str, options: Mapping[str, str]) -> list[str]:
    """The names of all topics, sorted."""
    with Cluster(brokers, security=ClientSecurity.of(options)) as cluster:
        return sorted(read_metadata(cluster.call(metadata_request(None))).topics)
