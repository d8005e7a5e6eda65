"""The brokers that a load reads from, for questions beside the reading itself."""

from millstream.client.cluster import Cluster
from millstream.client.connection import TIMEOUT_S
from millstream.client.security.client_security import ClientSecurity
from millstream.spark.jobs.load.settings import LoadSettings


def open_cluster(settings: LoadSettings, *, timeout_s: float = TIMEOUT_S) -> Cluster:
    """Connections to them, for one thread."""
    return Cluster(settings.brokers, client_id="millstream-load", timeout_s=timeout_s, security=ClientSecurity.of(settings.kafka))
