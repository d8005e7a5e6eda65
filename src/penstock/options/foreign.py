"""Options that Kafka has and Penstock has not: known by name, so that the answer is better than "unknown".

A person who brings a `server.properties` from Kafka is told for each line what to do about it.
"""

from collections.abc import Mapping

_REPLACED: Mapping[str, str] = {
    "listeners": "use --listen HOST:PORT",
    "advertised.listeners": "use --advertise HOST:PORT",
    "zookeeper.connect": "use --zookeeper HOST:PORT",
    "broker.id": "use node.id",
    "process.roles": "a Penstock broker needs no roles; remove it",
    "num.network.threads": "a Penstock broker has one event loop; remove it",
    "num.io.threads": "a Penstock broker has one event loop; remove it",
    "background.threads": "a Penstock broker has one event loop; remove it",
    "log.flush.start.offset.checkpoint.interval.ms": "start offsets are written at log.flush.offset.checkpoint.interval.ms; remove it",
    "socket.receive.buffer.bytes": "the kernel sizes the buffers of sockets; remove it",
    "socket.send.buffer.bytes": "the kernel sizes the buffers of sockets; remove it",
    "log.message.format.version": "there is one message format, version 2; remove it",
    "message.format.version": "there is one message format, version 2; remove it",
    "message.downconversion.enable": "there is one message format, version 2; remove it",
    "log.message.downconversion.enable": "there is one message format, version 2; remove it",
    "inter.broker.protocol.version": "there is one version; remove it",
}

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


def advice_for(name: str) -> str | None:
    """What to do about an option of Kafka's that Penstock has not; None if Kafka has no such option either, as far as we know."""
    replaced = _REPLACED.get(name)
    if replaced:
        return replaced
    if name.startswith(_WITHOUT_COUNTERPART):
        return "it is not supported by Penstock; remove it"
    return None
