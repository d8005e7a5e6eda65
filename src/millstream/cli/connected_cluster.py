"""How commands reach a cluster by our own client: for what confluent-kafka cannot ask. What goes wrong is said in a sentence."""

from collections.abc import Iterator
from contextlib import contextmanager

from millstream.cli.kafka_client import Cluster
from millstream.client.cluster import Cluster as ConnectedCluster
from millstream.client.errors import BrokerUnavailable
from millstream.client.security.client_security import ClientSecurity
from millstream.errors import CommandFailed, KafkaError

CONNECT_S = 5.0


@contextmanager
def connected_cluster(brokers: str, client_options: list[str] | None) -> Iterator[ConnectedCluster]:
    """Connect, with the flags `-b` and `-X`; a broker has answered once."""
    options = Cluster.of(brokers, client_options).options
    try:
        with ConnectedCluster(brokers, timeout_s=CONNECT_S, security=ClientSecurity.of(options)) as cluster:
            try:
                cluster.refresh([])
            except BrokerUnavailable as error:
                advice = "Start one with `millstream serve`, or name another with --brokers HOST:PORT."
                why = str(error)
                raise CommandFailed(f"{why[0].upper()}{why[1:]} {advice}") from error
            yield cluster
    except KafkaError as error:
        raise CommandFailed(f"At {brokers}: {error}.") from error
