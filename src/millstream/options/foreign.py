"""Options that Kafka has and Millstream has not: known by name, so that the answer is better than "unknown".

A person who brings a `server.properties` from Kafka learns for each line what to do about it.
"""

from collections.abc import Mapping

_REPLACED: Mapping[str, str] = {
    "zookeeper.connect": "use --zookeeper HOST:PORT/PATH, with a PATH that no Kafka uses, or remove it: the broker has a coordination",
    "log.flush.start.offset.checkpoint.interval.ms": "start offsets are written at log.flush.offset.checkpoint.interval.ms; remove it",
    "log.message.timestamp.difference.max.ms": "use log.message.timestamp.before.max.ms and log.message.timestamp.after.max.ms",
    "message.timestamp.difference.max.ms": "use message.timestamp.before.max.ms and message.timestamp.after.max.ms",
    "message.format.version": "there is one message format, version 2; remove it",
    "message.downconversion.enable": "there is one message format, version 2; remove it",
    "advertised.host.name": "use advertised.listeners, or --advertise HOST:PORT",
    "advertised.port": "use advertised.listeners, or --advertise HOST:PORT",
    "host.name": "use listeners, or --listen HOST:PORT",
    "port": "use listeners, or --listen HOST:PORT",
}

_PASSED_OVER = frozenset(
    {
        "broker.id.generation.enable",
        "controlled.shutdown.max.retries",
        "controlled.shutdown.retry.backoff.ms",
        "inter.broker.protocol.version",
        "leader.imbalance.per.broker.percentage",
        "log.message.downconversion.enable",
        "log.message.format.version",
        "offsets.commit.required.acks",
        "reserved.broker.max.id",
    }
)
"""Options of older Kafkas that Kafka 4 does not have: it says so in its log and starts. What they did is done, or about what is gone."""
_PASSED_OVER_PREFIXES = ("confluent.",)
"""Options of Confluent's images, which Apache Kafka never knew."""

_WITHOUT_COUNTERPART = (
    "alter.",
    "authorizer.",
    "client.quota.",
    "config.providers",
    "connections.max.reauth.ms",
    "control.plane.",
    "controlled.shutdown.",
    "controller.",
    "create.topic.policy.",
    "delegation.token.",
    "early.start.listeners",
    "group.",
    "inter.broker.listener.name",
    "kafka.metrics.",
    "leader.imbalance.",
    "listener.security.protocol.map",
    "log.cleaner.",
    "log.dir.failure.timeout.ms",
    "max.connection",
    "metadata.",
    "metric",
    "num.recovery.threads.per.data.dir",
    "num.replica.alter.log.dirs.threads",
    "offsets.",
    "password.encoder.",
    "principal.builder.class",
    "queued.max.requests",
    "quota.",
    "remote.",
    "replica.",
    "replication.quota.",
    "request.timeout.ms",
    "sasl.",
    "security.",
    "share.",
    "socket.connection.setup.",
    "socket.listen.backlog.size",
    "ssl.",
    "telemetry.",
    "transaction.",
    "zookeeper.",
)


def is_passed_over(name: str) -> bool:
    """Whether Kafka 4 does not know the option either, starts all the same, and is right to do so."""
    return name in _PASSED_OVER or name.startswith(_PASSED_OVER_PREFIXES)


def is_local_zookeeper(connect: str) -> bool:
    """Whether it is the ZooKeeper beside a Kafka on a developer's machine, `localhost:2181`, and not that of a cluster.

    It is not joined: Kafka keeps its znodes at the same paths.
    """
    hosts = [address.strip().rpartition(":")[0] or address.strip() for address in connect.partition("/")[0].split(",")]
    return len(hosts) == 1 and hosts[0] in ("localhost", "127.0.0.1", "[::1]")


def advice_for(name: str) -> str | None:
    """What to do about an option of Kafka's that Millstream has not; None if Kafka has no such option either, as far as we know."""
    replaced = _REPLACED.get(name)
    if replaced:
        return replaced
    if name.startswith(_WITHOUT_COUNTERPART):
        return "it is not supported by Millstream; remove it"
    return None
