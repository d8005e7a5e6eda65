"""Broker options of Kafka's that are taken and have no effect, because what they are about does not exist here.

Development set-ups carry them (`transaction.state.log.replication.factor=1` stands in every compose file), and to refuse them would
not help. An option may stand here only if no client sees whether it is obeyed: it sizes, times or tunes a part that Millstream has not, and
promises nothing about records, about who may do what, or about where things are. Each says why, docs/configuration.md repeats it, and a
test fails when the part has come and reads the option. What would be a lie (authorizers, policies, encryption, other controllers) stays
refused.
"""

from collections.abc import Iterator, Mapping

from millstream.options.option import Check, Option, OptionType, OptionValue, at_least, one_of

NO_SHARE_GROUPS = "there are no share groups yet"
_MOVES = "each data directory has one thread that copies partitions to it, and their rate keeps no samples"
NO_REMOTE_STORAGE = "there is no remote storage"
_NO_SAMPLES = "the throttle of replication is a bucket that fills up with time, and keeps no samples"
_ONE_LOOP = "one event loop does the work, without threads, queues or purgatories to size"
_KERNEL = "the kernel sizes the buffers and queues of sockets"
_COORDINATION = "the coordination keeps what Kafka's controllers keep in a log of their own"
_NO_QUOTAS = "there are no quotas yet"
_NO_METRICS = "metrics are not kept in windows or reported by plug-ins"
_NO_AUTHENTICATION = "no client has to authenticate"

Row = tuple[str, OptionType, str | None, str]
_INT, _LONG, _SHORT, _DOUBLE = OptionType.INT, OptionType.LONG, OptionType.SHORT, OptionType.DOUBLE
_BOOLEAN, _STRING, _LIST = OptionType.BOOLEAN, OptionType.STRING, OptionType.LIST

_ROWS: Mapping[str, tuple[Row, ...]] = {
    NO_SHARE_GROUPS: (
        ("share.coordinator.state.topic.num.partitions", _INT, "50", "Partitions of the topic of share groups."),
        ("share.coordinator.state.topic.replication.factor", _SHORT, "3", "Replicas of the topic of share groups."),
        ("share.coordinator.state.topic.min.isr", _SHORT, "2", "In-sync replicas that the topic of share groups needs."),
        ("share.coordinator.state.topic.segment.bytes", _INT, "104857600", "Segment size of the topic of share groups."),
    ),
    _MOVES: (
        ("num.replica.alter.log.dirs.threads", _INT, None, "Threads that move partitions between directories."),
        ("alter.log.dirs.replication.quota.window.num", _INT, "11", "Samples that the throttle of moves keeps."),
        ("alter.log.dirs.replication.quota.window.size.seconds", _INT, "1", "Length of a sample of the throttle of moves."),
    ),
    _NO_SAMPLES: (
        ("replication.quota.window.num", _INT, "11", "Samples that the throttle of replication keeps."),
        ("replication.quota.window.size.seconds", _INT, "1", "Length of a sample of the throttle of replication."),
    ),
    _ONE_LOOP: (
        ("num.network.threads", _INT, "3", "Threads that read requests and send answers."),
        ("num.io.threads", _INT, "8", "Threads that handle requests."),
        ("background.threads", _INT, "10", "Threads for housekeeping."),
        ("num.recovery.threads.per.data.dir", _INT, "2", "Threads that open and recover logs."),
        ("group.coordinator.threads", _INT, "4", "Threads of the group coordinator."),
        ("group.coordinator.append.linger.ms", _INT, "-1", "How long the group coordinator collects records before it writes them."),
        ("queued.max.requests", _INT, "500", "Requests that may wait for a thread."),
        ("fetch.purgatory.purge.interval.requests", _INT, "1000", "After how many fetches those that are over are forgotten."),
        ("producer.purgatory.purge.interval.requests", _INT, "1000", "After how many produces those that are over are forgotten."),
        ("delete.records.purgatory.purge.interval.requests", _INT, "1", "After how many deletions those that are over are forgotten."),
        ("log.initial.task.delay.ms", _LONG, "30000", "Pause before the first housekeeping."),
    ),
    _KERNEL: (
        ("replica.socket.receive.buffer.bytes", _INT, "65536", "Receive buffer of a follower's connection."),
        ("socket.send.buffer.bytes", _INT, "102400", "Send buffer of a connection."),
        ("socket.receive.buffer.bytes", _INT, "102400", "Receive buffer of a connection."),
        ("socket.listen.backlog.size", _INT, "50", "Connections that may wait to be accepted."),
    ),
    _COORDINATION: (
        ("controller.listener.names", _LIST, None, "Listeners for controllers: among `listeners` these are not opened."),
        ("inter.broker.listener.name", _STRING, None, "Listener over which brokers talk to each other."),
        ("controller.quorum.append.linger.ms", _INT, "25", "How long a controller collects records before it writes them."),
        ("controller.quorum.election.backoff.max.ms", _INT, "1000", "The longest pause between elections."),
        ("controller.quorum.election.timeout.ms", _INT, "1000", "How long an election may take."),
        ("controller.quorum.fetch.timeout.ms", _INT, "2000", "Silence of the leader after which there is an election."),
        ("controller.quorum.request.timeout.ms", _INT, "2000", "How long a controller waits for an answer."),
        ("controller.quorum.retry.backoff.ms", _INT, "20", "Pause before a controller asks again."),
        ("controller.socket.timeout.ms", _INT, "30000", "How long a broker waits for a controller."),
        ("request.timeout.ms", _INT, "30000", "How long a broker waits for an answer of another."),
        ("socket.connection.setup.timeout.ms", _LONG, "10000", "How long a broker waits for a connection to another."),
        ("socket.connection.setup.timeout.max.ms", _LONG, "30000", "The longest such wait."),
        ("broker.heartbeat.interval.ms", _INT, "2000", "How often a broker reports to the controller that it lives."),
        ("broker.session.timeout.ms", _INT, "9000", "Silence after which the controller takes a broker for dead."),
        ("initial.broker.registration.timeout.ms", _INT, "60000", "How long a broker tries to register when it starts."),
        ("metadata.log.segment.bytes", _INT, "1073741824", "Segment size of the metadata log."),
        ("metadata.log.segment.ms", _LONG, "604800000", "Age at which a segment of the metadata log is closed."),
        ("metadata.log.max.record.bytes.between.snapshots", _LONG, "20971520", "Bytes of metadata after which there is a snapshot."),
        ("metadata.log.max.snapshot.interval.ms", _LONG, "3600000", "Time after which there is a snapshot of metadata."),
        ("metadata.max.idle.interval.ms", _INT, "500", "How often an idle controller writes a record."),
        ("metadata.max.retention.bytes", _LONG, "104857600", "Size above which old metadata is deleted."),
        ("metadata.max.retention.ms", _LONG, "604800000", "Age at which old metadata is deleted."),
    ),
    _NO_QUOTAS: (
        ("quota.window.num", _INT, "11", "Samples that quotas of clients keep."),
        ("quota.window.size.seconds", _INT, "1", "Length of a sample of the quotas of clients."),
        ("controller.quota.window.num", _INT, "11", "Samples that quotas of changes to topics keep."),
        ("controller.quota.window.size.seconds", _INT, "1", "Length of a sample of the quotas of changes to topics."),
    ),
    _NO_METRICS: (
        ("metrics.num.samples", _INT, "2", "Samples that metrics keep."),
        ("metrics.recording.level", _STRING, "INFO", "How much is measured."),
        ("metrics.sample.window.ms", _LONG, "30000", "Length of a sample of metrics."),
        ("kafka.metrics.polling.interval.secs", _INT, "10", "How often plug-ins ask for metrics."),
        ("telemetry.max.bytes", _INT, "1048576", "Most that a client's telemetry may have."),
    ),
    _NO_AUTHENTICATION: (
        ("connection.failed.authentication.delay.ms", _INT, "100", "Pause before a connection is closed whose authentication failed."),
    ),
}

_DYNAMIC = frozenset(
    {
        "background.threads",
        "num.io.threads",
        "num.network.threads",
        "num.recovery.threads.per.data.dir",
        "transaction.partition.verification.enable",
    }
)
"""What Kafka lets tools change while the broker runs; kafka-reassign-partitions sets and clears the throttles."""
_MAY_BE_NEGATIVE = frozenset(
    {"group.coordinator.append.linger.ms", "socket.receive.buffer.bytes", "socket.send.buffer.bytes", "metadata.max.retention.bytes"}
)
_AT_LEAST_ONE = (
    ".min.isr",
    ".num.partitions",
    ".num.samples",
    ".per.data.dir",
    ".replication.factor",
    ".segment.bytes",
    ".size.seconds",
    ".threads",
    ".window.num",
    "queued.max.requests",
)
"""How the names end of what there cannot be none of."""
_CHECKS = {"metrics.recording.level": one_of("INFO", "DEBUG", "TRACE")}


def _check(name: str, option_type: OptionType) -> Check | None:
    if name in _CHECKS:
        return _CHECKS[name]
    if option_type not in (_INT, _LONG, _SHORT, _DOUBLE):
        return None
    return at_least(-1 if name in _MAY_BE_NEGATIVE else 1 if name.endswith(_AT_LEAST_ONE) else 0)


def _rows() -> Iterator[Option]:
    for reason, rows in _ROWS.items():
        for name, option_type, default, documentation in rows:
            check = _check(name, option_type)
            is_read_only = name not in _DYNAMIC
            yield Option(name, option_type, default, documentation, check, is_read_only=is_read_only, without_effect=reason)


def _at_most_one(value: OptionValue) -> bool:
    return isinstance(value, tuple) and len(value) <= 1


_ALONE = Check("at most one address: this broker is its own controller (for several brokers, see --zookeeper)", _at_most_one)
_BOTH_ROLES = Check(
    "broker,controller: every broker can be the controller", lambda value: value in (("broker", "controller"), ("controller", "broker"))
)

WITHOUT_EFFECT = (
    *_rows(),
    *(
        Option(name, _LIST, "", "The controllers of the cluster.", _ALONE, is_read_only=True, without_effect=_COORDINATION)
        for name in ("controller.quorum.bootstrap.servers", "controller.quorum.voters")
    ),
    Option(
        "process.roles",
        _LIST,
        "broker,controller",
        "What this process is.",
        _BOTH_ROLES,
        is_read_only=True,
        without_effect="it is both, whether it is said or not",
    ),
)
"""The options, in no order."""
