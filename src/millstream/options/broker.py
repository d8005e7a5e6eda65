"""The options of a broker: those of Kafka 4.2 that Millstream obeys, and those it knows and keeps at their default.

Options that set the default of a topic option are built from that topic option, so type, default and limits cannot differ. Those that are
taken although what they are about does not exist here stand in `without_effect`; what Kafka has beyond these lists, in `foreign`.
"""

from collections.abc import Mapping
from types import MappingProxyType

from millstream.options.option import (
    MAX_INT,
    Check,
    Option,
    OptionType,
    at_least,
    at_least_one_of,
    between,
    one_element,
    one_of,
    one_of_in_any_case,
    unlimited_or_at_least,
)
from millstream.options.topic import SMALLEST_SEGMENT_BYTES, TOPIC_OPTIONS
from millstream.options.without_effect import WITHOUT_EFFECT

RACK_AWARE_SELECTOR = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
LEADER_SELECTOR = "org.apache.kafka.common.replica.LeaderSelector"

_STATIC_TOPIC_DEFAULTS = frozenset(
    {
        "log.flush.scheduler.interval.ms",
        "log.retention.hours",
        "log.retention.minutes",
        "log.roll.hours",
        "log.roll.jitter.hours",
    }
)
"""Kafka takes these only from the file at start; their siblings in milliseconds can be changed while the broker runs."""

_TOPIC_DEFAULT_OVERRIDES: Mapping[str, tuple[OptionType, str | None]] = {
    "log.flush.interval.ms": (OptionType.LONG, None),
    "log.retention.ms": (OptionType.LONG, None),
    "log.retention.minutes": (OptionType.INT, None),
    "log.retention.hours": (OptionType.INT, "168"),
    "log.roll.ms": (OptionType.LONG, None),
    "log.roll.hours": (OptionType.INT, "168"),
    "log.roll.jitter.ms": (OptionType.LONG, None),
    "log.roll.jitter.hours": (OptionType.INT, "0"),
}
"""Where several broker options stand for one topic option, the last one carries the default, in its own unit."""


def _topic_defaults() -> list[Option]:
    options = []
    for topic_option in TOPIC_OPTIONS.values():
        for name in topic_option.synonyms:
            option_type, default = _TOPIC_DEFAULT_OVERRIDES.get(name, (topic_option.type, topic_option.default))
            options.append(
                topic_option._replace(
                    name=name,
                    type=option_type,
                    default=default,
                    check=unlimited_or_at_least(1)
                    if name.startswith("log.retention.") and name != "log.retention.bytes"
                    else topic_option.check,
                    documentation=f"Default of the topic option `{topic_option.name}`. {topic_option.documentation}",
                    synonyms=tuple(sibling for sibling in topic_option.synonyms if sibling != name),
                    is_read_only=name in _STATIC_TOPIC_DEFAULTS,
                )
            )
    return options


def _option(
    name: str,
    option_type: OptionType,
    default: str | int | None,
    documentation: str,
    *,
    minimum: int | None = None,
    check: Check | None = None,
) -> Option:
    """An option that is set when the broker starts."""
    if minimum is not None:
        check = at_least(minimum)
    return Option(name, option_type, None if default is None else str(default), documentation, check, is_read_only=True)


def _dynamic(option: Option) -> Option:
    return option._replace(is_read_only=False)


def _fixed(name: str, option_type: OptionType, default: str | int, documentation: str) -> Option:
    return Option(name, option_type, str(default), documentation, is_read_only=True, is_fixed=True)


_BROKER = (
    _option("node.id", OptionType.INT, 1, "Number of this broker, unique in its cluster.", minimum=0),
    _option("broker.rack", OptionType.STRING, None, "Where this broker stands; sent to clients, which may prefer near replicas."),
    _option("log.dir", OptionType.LIST, "millstream-data", "Directory of the data, if `log.dirs` is not set; `--data` sets it."),
    _option("log.dirs", OptionType.LIST, None, "Directories of the data; partitions are spread over them."),
    _option("log.retention.check.interval.ms", OptionType.LONG, 300_000, "How often old segments are looked for and deleted.", minimum=1),
    _option(
        "log.flush.offset.checkpoint.interval.ms",
        OptionType.INT,
        60_000,
        "How often recovery points, start offsets and high watermarks are written: what lies behind them is not read again after a crash.",
        minimum=1,
    ),
    _option("producer.id.expiration.ms", OptionType.INT, 86_400_000, "How long a silent idempotent producer is remembered.", minimum=1),
    _option(
        "producer.id.expiration.check.interval.ms",
        OptionType.INT,
        600_000,
        "How often producers that have been silent too long are forgotten.",
        minimum=1,
    ),
)

_REPLICATION = (
    _dynamic(
        _option(
            "leader.replication.throttled.rate",
            OptionType.LONG,
            None,
            "Bytes a second that this broker sends of all replicas that `leader.replication.throttled.replicas` names; no limit if unset.",
            minimum=0,
        )
    ),
    _dynamic(
        _option(
            "follower.replication.throttled.rate",
            OptionType.LONG,
            None,
            "Bytes a second that this broker copies of all replicas that `follower.replication.throttled.replicas` names; no limit if"
            " unset.",
            minimum=0,
        )
    ),
    _dynamic(
        _option("num.replica.fetchers", OptionType.INT, 1, "Connections over which a follower fetches from one leader.", minimum=1),
    ),
    _option("replica.fetch.backoff.ms", OptionType.INT, 1000, "Longest pause of a follower after a fetch that failed.", minimum=0),
    _option("replica.fetch.max.bytes", OptionType.INT, 1_048_576, "Bytes a follower asks for per partition.", minimum=0),
    _option("replica.fetch.min.bytes", OptionType.INT, 1, "Bytes that the leader waits for before it answers a follower.", minimum=0),
    _option("replica.fetch.response.max.bytes", OptionType.INT, 10_485_760, "Bytes a follower asks for in one fetch.", minimum=0),
    _option("replica.fetch.wait.max.ms", OptionType.INT, 500, "How long the leader waits for `replica.fetch.min.bytes`.", minimum=0),
    _option(
        "replica.high.watermark.checkpoint.interval.ms",
        OptionType.LONG,
        5000,
        "How often it is written down how far partitions with followers are committed.",
        minimum=1,
    ),
    _option(
        "replica.lag.time.max.ms",
        OptionType.LONG,
        30_000,
        "Time after which a follower that has not had everything leaves the in-sync set.",
        minimum=1,
    ),
    _option(
        "replica.selector.class",
        OptionType.STRING,
        None,
        "Which replica a consumer reads from that says where it is (`client.rack`): Kafka's `...RackAwareReplicaSelector` sends it to an"
        " in-sync replica in its rack, if there is one; else it is the leader.",
        check=one_of(RACK_AWARE_SELECTOR, LEADER_SELECTOR),
    ),
    _option("replica.socket.timeout.ms", OptionType.INT, 30_000, "How long a follower waits for an answer of its leader.", minimum=1),
)

_COMPACTION = (
    _option("log.cleaner.enable", OptionType.BOOLEAN, "true", "Whether compacted topics are compacted."),
    _dynamic(_option("log.cleaner.threads", OptionType.INT, 1, "Processes that compact logs, when there is something to do.", minimum=0)),
    _dynamic(_option("log.cleaner.backoff.ms", OptionType.LONG, 15_000, "Pause before logs to compact are looked for again.", minimum=0)),
    _dynamic(
        _option(
            "log.cleaner.io.max.bytes.per.second",
            OptionType.DOUBLE,
            "1.7976931348623157E308",
            "Bytes that compaction reads and writes in a second, at most, on average.",
            minimum=0,
        )
    ),
    _dynamic(
        _option(
            "replica.alter.log.dirs.io.max.bytes.per.second",
            OptionType.LONG,
            None,
            "Bytes a second at which partitions are copied from one data directory to another, all together.",
            minimum=0,
        )
    ),
    _dynamic(
        _option(
            "log.cleaner.dedupe.buffer.size",
            OptionType.LONG,
            134_217_728,
            "Memory for the latest offset of every key that a compaction process looks at in one go (about 160 bytes per key).",
            minimum=0,
        )
    ),
    _dynamic(
        _option(
            "log.cleaner.io.buffer.load.factor",
            OptionType.DOUBLE,
            "0.9",
            "Share of `log.cleaner.dedupe.buffer.size` that is filled.",
            check=between(0, 1),
        )
    ),
    _dynamic(_option("log.cleaner.io.buffer.size", OptionType.INT, 524_288, "Bytes that a compaction process reads at a time.", minimum=0)),
)

_TOPICS = (
    _option("auto.create.topics.enable", OptionType.BOOLEAN, "true", "Whether asking for a topic that does not exist may create it."),
    _option("num.partitions", OptionType.INT, 1, "Partitions of a topic that is created without saying how many.", minimum=1),
    _option("default.replication.factor", OptionType.INT, 1, "Replicas of a topic that is created without saying how many.", minimum=1),
    _option("delete.topic.enable", OptionType.BOOLEAN, "true", "Whether topics can be deleted."),
)

_NETWORK = (
    _dynamic(_option("max.connections", OptionType.INT, MAX_INT, "Connections the broker accepts in all.", minimum=0)),
    _dynamic(_option("max.connections.per.ip", OptionType.INT, MAX_INT, "Connections the broker accepts from one address.", minimum=0)),
    _option("connections.max.idle.ms", OptionType.LONG, 600_000, "Time without a request after which a connection is closed."),
    _option("socket.request.max.bytes", OptionType.INT, 100 * 1024 * 1024, "The biggest request that is read.", minimum=1),
    _option(
        "queued.max.request.bytes",
        OptionType.LONG,
        512 * 1024 * 1024,
        "Memory for large requests that come in or are looked into, over all connections; one that would go past it is closed.",
        minimum=16 * 1024 * 1024,
    ),
    _option("fetch.max.bytes", OptionType.INT, 55 * 1024 * 1024, "The most that one fetch is answered with.", minimum=1024),
    _option(
        "max.incremental.fetch.session.cache.slots",
        OptionType.INT,
        1000,
        "Fetch sessions that are remembered, so that consumers only send what changed.",
        minimum=0,
    ),
)

_LISTENERS = (
    _option(
        "listeners",
        OptionType.LIST,
        "PLAINTEXT://127.0.0.1:9092",
        "Where clients connect; `--listen` sets it. One address, PLAINTEXT.",
        check=one_element("name://host:port"),
    ),
    _option(
        "advertised.listeners",
        OptionType.LIST,
        None,
        "The address that clients connect to; `--advertise` sets it.",
        check=one_element("name://host:port"),
    ),
    _option(
        "listener.security.protocol.map",
        OptionType.STRING,
        "PLAINTEXT:PLAINTEXT",
        "Which protocol a listener of another name speaks; the one for clients has to be PLAINTEXT.",
    ),
    _fixed("security.inter.broker.protocol", OptionType.STRING, "PLAINTEXT", "What brokers speak among each other."),
    _option("broker.id", OptionType.INT, -1, "The older name of `node.id`.", minimum=-1),
)

_CONTROLLER = (
    _option("auto.leader.rebalance.enable", OptionType.BOOLEAN, "true", "Whether leadership goes back to the preferred replica by itself."),
    _option(
        "leader.imbalance.check.interval.seconds",
        OptionType.LONG,
        300,
        "How often it is looked whether leadership should go back.",
        minimum=1,
    ),
    _option("controlled.shutdown.enable", OptionType.BOOLEAN, "true", "Whether leadership is handed over before a broker stops."),
)

_ZOOKEEPER = (
    _option(
        "zookeeper.session.timeout.ms",
        OptionType.INT,
        18_000,
        "Silence after which ZooKeeper takes this broker for dead and others lead its partitions. ZooKeeper has limits of its own for it.",
        minimum=1000,
    ),
    _option(
        "zookeeper.connection.timeout.ms",
        OptionType.INT,
        30_000,
        "How long a start waits for ZooKeeper to answer. Later there is no such limit: a broker tries again for ever.",
        minimum=1,
    ),
)

_KEPT_AS_IT_IS = (
    _fixed("max.request.partition.size.limit", OptionType.INT, 2000, "The most partitions that one answer describes."),
    _fixed("group.coordinator.rebalance.protocols", OptionType.LIST, "classic,consumer", "The protocols of groups that there are."),
    _fixed("authorizer.class.name", OptionType.STRING, "", "What decides which client may do what: nothing, everything is allowed."),
    _fixed("connections.max.reauth.ms", OptionType.LONG, 0, "Time after which a client has to authenticate again."),
    _fixed("max.connection.creation.rate", OptionType.INT, MAX_INT, "New connections that are accepted in a second."),
    _fixed("max.connections.per.ip.overrides", OptionType.STRING, "", "Limits of single addresses, instead of `max.connections.per.ip`."),
    _fixed("metric.reporters", OptionType.LIST, "", "Plug-ins that report metrics."),
    _fixed("kafka.metrics.reporters", OptionType.LIST, "", "Plug-ins that report metrics, of the older kind."),
    _fixed("remote.log.storage.system.enable", OptionType.BOOLEAN, "false", "Whether old segments can be kept in remote storage."),
    _fixed("transaction.two.phase.commit.enable", OptionType.BOOLEAN, "false", "Whether transactions can be prepared and ended later."),
)

_GROUPS = (
    _option(
        "group.initial.rebalance.delay.ms",
        OptionType.INT,
        50,
        "Wait for further members before a new group's first rebalance. Kafka waits 3000 ms, for groups of many members that start at"
        " once; a member that comes later only costs another rebalance, which is quick here.",
        minimum=0,
    ),
    _option("group.min.session.timeout.ms", OptionType.INT, 6000, "The shortest session timeout a classic member may ask for.", minimum=1),
    _option("group.max.session.timeout.ms", OptionType.INT, 1_800_000, "The longest session timeout a classic member may have.", minimum=1),
    _option("group.max.size", OptionType.INT, MAX_INT, "Members a classic group may have.", minimum=1),
    _option("group.consumer.session.timeout.ms", OptionType.INT, 45_000, "Silence after which a KIP-848 member is dropped.", minimum=1),
    _option(
        "group.consumer.min.session.timeout.ms", OptionType.INT, 45_000, "Lower limit of `group.consumer.session.timeout.ms`.", minimum=1
    ),
    _option(
        "group.consumer.max.session.timeout.ms", OptionType.INT, 60_000, "Upper limit of `group.consumer.session.timeout.ms`.", minimum=1
    ),
    _option("group.consumer.heartbeat.interval.ms", OptionType.INT, 5000, "How often KIP-848 members are to send heartbeats.", minimum=1),
    _option(
        "group.consumer.min.heartbeat.interval.ms",
        OptionType.INT,
        5000,
        "Lower limit of `group.consumer.heartbeat.interval.ms`.",
        minimum=1,
    ),
    _option(
        "group.consumer.max.heartbeat.interval.ms",
        OptionType.INT,
        15_000,
        "Upper limit of `group.consumer.heartbeat.interval.ms`.",
        minimum=1,
    ),
    _option("group.consumer.max.size", OptionType.INT, MAX_INT, "Members a KIP-848 group may have.", minimum=1),
    _option(
        "group.consumer.assignors",
        OptionType.LIST,
        "uniform,range",
        "Assignors of KIP-848 groups; the first is the default.",
        check=at_least_one_of("uniform", "range"),
    ),
    _option(
        "group.consumer.migration.policy",
        OptionType.STRING,
        "bidirectional",
        "Whether groups with members may change from the classic protocol to KIP-848 (upgrade), back (downgrade), or both.",
        check=one_of_in_any_case("disabled", "downgrade", "upgrade", "bidirectional"),
    ),
    _option("offset.metadata.max.bytes", OptionType.INT, 4096, "Text that may be committed with an offset.", minimum=0),
    _option("offsets.commit.timeout.ms", OptionType.INT, 5_000, "Time within which a commit has to reach all in-sync replicas.", minimum=1),
    _option("offsets.retention.minutes", OptionType.INT, 10_080, "How long the offsets of an empty group are kept.", minimum=1),
    _option("offsets.retention.check.interval.ms", OptionType.LONG, 600_000, "How often expired offsets are looked for.", minimum=1),
    _option(
        "offsets.topic.num.partitions",
        OptionType.INT,
        50,
        "Partitions of the topic of committed offsets, when it is created; not to be changed afterwards.",
        minimum=1,
    ),
    _option(
        "offsets.topic.replication.factor",
        OptionType.SHORT,
        3,
        "Replicas of the topic of committed offsets when it is created; as many as there are brokers if those are fewer.",
        minimum=1,
    ),
    _option(
        "offsets.topic.segment.bytes",
        OptionType.INT,
        100 * 1024 * 1024,
        "Segment size of the topic of committed offsets, when it is created.",
        minimum=SMALLEST_SEGMENT_BYTES,
    ),
    _option(
        "offsets.topic.compression.codec",
        OptionType.INT,
        0,
        "Codec of the topic of committed offsets: 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd.",
        check=between(0, 4),
    ),
    _option("offsets.load.buffer.size", OptionType.INT, 5 * 1024 * 1024, "Bytes that are read at once when groups are loaded.", minimum=1),
)

_TRANSACTIONS = (
    _option("transaction.max.timeout.ms", OptionType.INT, 900_000, "The longest timeout a transactional producer may ask for.", minimum=1),
    _option("transactional.id.expiration.ms", OptionType.INT, 604_800_000, "How long an unused transactional id is remembered.", minimum=1),
    _option(
        "transaction.abort.timed.out.transaction.cleanup.interval.ms",
        OptionType.INT,
        10_000,
        "How often transactions are aborted that take longer than their timeout.",
        minimum=1,
    ),
    _option(
        "transaction.remove.expired.transaction.cleanup.interval.ms",
        OptionType.INT,
        3_600_000,
        "How often unused transactional ids are removed.",
        minimum=1,
    ),
    _option(
        "transaction.state.log.num.partitions",
        OptionType.INT,
        50,
        "Partitions of the topic of transactions, when it is created; not to be changed afterwards.",
        minimum=1,
    ),
    _option(
        "transaction.state.log.replication.factor",
        OptionType.SHORT,
        3,
        "Replicas of the topic of transactions when it is created; as many as there are brokers if those are fewer.",
        minimum=1,
    ),
    _option(
        "transaction.state.log.min.isr",
        OptionType.INT,
        2,
        "In-sync replicas that the topic of transactions needs, when it is created; all of them if it has fewer.",
        minimum=1,
    ),
    _option(
        "transaction.state.log.segment.bytes",
        OptionType.INT,
        100 * 1024 * 1024,
        "Segment size of the topic of transactions, when it is created.",
        minimum=SMALLEST_SEGMENT_BYTES,
    ),
    _option(
        "transaction.state.log.load.buffer.size",
        OptionType.INT,
        5 * 1024 * 1024,
        "Bytes that are read at once when transactions are loaded.",
        minimum=1,
    ),
    _option(
        "add.partitions.to.txn.retry.backoff.ms",
        OptionType.INT,
        20,
        "Pause before a partition is added to a transaction again whose last one is still being ended.",
        minimum=1,
    ),
    _option(
        "add.partitions.to.txn.retry.backoff.max.ms",
        OptionType.INT,
        100,
        "How long a partition is tried to be added before the client has to.",
        minimum=0,
    ),
    _dynamic(
        _option(
            "transaction.partition.verification.enable",
            OptionType.BOOLEAN,
            "true",
            "Whether the coordinator is asked about the first batch of a transaction in a partition. Where clients do not add partitions"
            " themselves (Produce 12 and up) it is asked in any case.",
        )
    ),
)

BROKER_OPTIONS: Mapping[str, Option] = MappingProxyType(
    {
        option.name: option
        for option in sorted(
            (
                *_BROKER,
                *_REPLICATION,
                *_COMPACTION,
                *_TOPICS,
                *_CONTROLLER,
                *_NETWORK,
                *_LISTENERS,
                *_ZOOKEEPER,
                *_KEPT_AS_IT_IS,
                *_GROUPS,
                *_TRANSACTIONS,
                *WITHOUT_EFFECT,
                *_topic_defaults(),
            ),
            key=lambda option: option.name,
        )
    }
)
"""Every option of a broker, by name, in alphabetical order."""

TOPIC_DEFAULTS = frozenset(name for option in TOPIC_OPTIONS.values() for name in option.synonyms)
"""Broker options whose only effect is the default of a topic option."""
