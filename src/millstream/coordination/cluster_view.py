"""What the cluster looks like, as one immutable value: `ClusterView`.

A broker holds exactly one view at a time and swaps it whole, so whoever reads it within one callback sees one consistent picture. The
truth is in the znodes; the classes here also know how their state is written there (JSON; topics: `topic_header`, `partition_state`):

    /brokers/ids/<id>         {"host": ..., "port": ..., "rack": ..., "previous_epoch": ..., "home": ...}; "starting": no broker yet;
                              "inter_broker_host", "inter_broker_port": where other brokers reach it, if not where clients do
    /brokers/epochs/<id>      decimal
    /config/brokers/<id>      {"option": "value", ...}; the id `<default>` holds for all brokers

Any program can write to the tree, so `decode` is strict: it raises ValueError, naming the field, for all that we would not have written.

A partition with one replica is a partition with one replica: nothing here knows whether there is a cluster.
"""

import json
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple, Self
from uuid import UUID

from millstream.address import Address
from millstream.coordination.partition_state import PartitionState
from millstream.coordination.topic_header import TopicHeader
from millstream.coordination.topic_names import INTERNAL_TOPICS
from millstream.json_object import MAX_INT, JsonObject

DEFAULT_BROKER = "<default>"
"""The broker id under which configs for all brokers are kept, as Kafka names it."""

_DECIMAL = re.compile(r"0|[1-9][0-9]{0,9}")
_EPOCH = re.compile(rb"[0-9]{1,10}")
_LIFE = re.compile(rb"0|[1-9][0-9]{0,18}")
_CLUSTER_ID = re.compile(r"[!-~]{1,249}")


def encode_configs(configs: Mapping[str, str]) -> bytes:
    """The content of a config znode."""
    return json.dumps(dict(configs)).encode()


def decode_configs(data: bytes) -> dict[str, str]:
    """The options in a config znode; ValueError if it holds something else."""
    return JsonObject.parse(data).all_texts()


def decode_broker_id(name: str) -> int:
    """The number of a broker from the name of a znode; ValueError if it is none."""
    if not _DECIMAL.fullmatch(name) or int(name) > MAX_INT:
        raise ValueError(f"{name[:80]!r} is no number of a broker")
    return int(name)


def decode_controller(data: bytes) -> int:
    """The broker id in the controller's znode; ValueError if it holds something else."""
    return JsonObject.parse(data).integer("broker_id")


def decode_controller_epoch(data: bytes) -> int:
    """The number of the last election; ValueError if it is none."""
    if not _EPOCH.fullmatch(data) or int(data) >= MAX_INT:
        raise ValueError(f"it must be a number, and is {data[:80]!r}")
    return int(data)


def decode_life(data: bytes) -> int:
    """The broker epoch that the controller has dealt with; ValueError if it is none."""
    if not _LIFE.fullmatch(data) or int(data) >= 2**63:
        raise ValueError(f"it must be the epoch of a broker, and is {data[:80]!r}")
    return int(data)


def decode_cluster_id(data: bytes) -> str:
    """The cluster id; ValueError if it is none: it becomes a line of a file and is sent to every client."""
    text = data.decode()
    if not _CLUSTER_ID.fullmatch(text):
        raise ValueError(f"{text[:80]!r} is no id of a cluster")
    return text


@dataclass(frozen=True, slots=True)
class TopicState:
    """A topic: its id, its own configs and its partitions, the index in the tuple being the partition's number."""

    name: str
    topic_id: UUID
    partitions: tuple[PartitionState, ...]
    configs: Mapping[str, str] = field(default_factory=dict)
    version: int = 0
    """Version of the znode that this was read from."""
    created: int = field(default=-1, compare=False)
    """The transaction that created the znode: a topic of the same name that was deleted and made again has another."""
    modified: int = field(default=-1, compare=False)
    """The transaction that wrote the znode last: none of the partitions was created after it."""

    @property
    def is_internal(self) -> bool:
        """Whether the topic belongs to the broker itself."""
        return self.name in INTERNAL_TOPICS

    @property
    def header(self) -> TopicHeader:
        """The content of the topic's znode."""
        return TopicHeader(self.topic_id, self.configs, len(self.partitions))

    def check_follows(self, last: "TopicState | None") -> None:
        """Raise ValueError unless this may be what became of `last`: a topic keeps its id, and loses no partition."""
        if last is None or last.created != self.created:
            return
        if last.topic_id != self.topic_id:
            raise ValueError(f"topic_id must stay {last.topic_id}, and is {self.topic_id}")
        if len(self.partitions) < len(last.partitions):
            raise ValueError(f"partitions are never taken away: there were {len(last.partitions)}, and are {len(self.partitions)}")


class BrokerState(NamedTuple):
    """A living broker and where clients reach it."""

    node_id: int
    host: str
    port: int
    rack: str | None = None
    epoch: int = -1
    """What two lives of a broker differ in: the transaction that created its znode. Not part of the znode's content."""
    previous_epoch: int = -1
    """The life that ended well before this one: nothing that it had is lost. -1 if none did."""
    home: str = ""
    """Where it holds the locks of its data directories: the boot of the machine, and the ids of the directories."""
    is_starting: bool = False
    """It has the number, and its logs are not open yet: it is in no view, so nothing is led by it or placed on it."""
    inter_broker: Address | None = None
    """Where the other brokers reach it, if that is not where clients do: all of them are in processes of one machine."""

    def encode(self) -> bytes:
        """The content of the broker's znode."""
        fields: dict[str, object] = {
            "host": self.host,
            "port": self.port,
            "rack": self.rack,
            "previous_epoch": self.previous_epoch,
            "home": self.home,
        }
        if self.is_starting:
            fields["starting"] = True
        if self.inter_broker is not None:
            fields |= {"inter_broker_host": self.inter_broker.host, "inter_broker_port": self.inter_broker.port}
        return json.dumps(fields).encode()

    def is_in_the_place_of(self, former: "BrokerState") -> bool:
        """Whether the other one is certainly dead: it held a lock, on this run of this machine, that this one holds now."""
        boot, *directories = self.home.split() or [""]
        former_boot, *former_directories = former.home.split() or [""]
        return bool(boot) and boot == former_boot and not set(directories).isdisjoint(former_directories)

    @classmethod
    def decode(cls, node_id: int, data: bytes, *, epoch: int) -> Self:
        """The broker whose znode holds `data`; ValueError if that makes no sense."""
        fields = JsonObject.parse(data)
        host = fields.text("host")
        if not host:
            raise ValueError("host must not be empty")
        port, rack, home = fields.integer("port", highest=65_535), fields.optional_text("rack"), fields.text("home")
        previous_epoch = fields.integer("previous_epoch", lowest=-1, highest=2**63 - 1)
        inter_broker = None
        if "inter_broker_host" in fields:
            inter_broker = Address(fields.text("inter_broker_host"), fields.integer("inter_broker_port", highest=65_535))
        return cls(node_id, host, port, rack, epoch, previous_epoch, home, is_starting="starting" in fields, inter_broker=inter_broker)


@dataclass(frozen=True, slots=True)
class ClusterView:
    """All of it at one moment."""

    cluster_id: str = ""
    controller_id: int = -1
    brokers: Mapping[int, BrokerState] = field(default_factory=dict)
    lives: Mapping[int, int] = field(default_factory=dict)
    """The life (broker epoch) of each broker that the controller has dealt with: what states say of a broker holds for that life."""
    topics: Mapping[str, TopicState] = field(default_factory=dict)
    broker_configs: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    unreadable_topics: frozenset[str] = frozenset()
    """Topics whose znodes are there and never made sense: nothing is known of them, and their logs are left alone."""
    topics_by_id: Mapping[UUID, TopicState] = field(default_factory=dict, repr=False, compare=False)
    """The same topics; given only by `with_topics`."""
    partition_count: int = field(default=0, compare=False)
    """Of all topics together that are not internal."""
    former_topics: Mapping[str, TopicState] | None = field(default=None, repr=False, compare=False)
    """What `topics` were made of, and which names were changed by that."""
    changed_names: Collection[str] = field(default=(), repr=False, compare=False)

    def __post_init__(self) -> None:
        if len(self.topics_by_id) != len(self.topics):
            object.__setattr__(self, "topics_by_id", {topic.topic_id: topic for topic in self.topics.values()})
            object.__setattr__(self, "partition_count", sum(_counted(topic) for topic in self.topics.values()))

    def with_topics(self, changed: Mapping[str, TopicState | None]) -> "ClusterView":
        """The view with some topics replaced, added or (None) removed; those that stay are copied, not looked at."""
        if not changed:
            return self
        topics, by_id, count = dict(self.topics), dict(self.topics_by_id), self.partition_count
        for name, topic in changed.items():
            former = topics.get(name)
            if former is not None:
                by_id.pop(former.topic_id, None)
                count -= _counted(former)
            if topic is not None:
                topics[name] = by_id[topic.topic_id] = topic
                count += _counted(topic)
            elif former is not None:
                del topics[name]
        return replace(
            self, topics=topics, topics_by_id=by_id, partition_count=count, former_topics=self.topics, changed_names=frozenset(changed)
        )

    def showing(self, partition_counts: Mapping[str, int]) -> "ClusterView":
        """The view with only the first partitions of some topics; a topic of which there are none to show is left out."""
        shown: dict[str, TopicState | None] = {}
        for name, count in partition_counts.items():
            topic = self.topics.get(name)
            if topic is not None and count < len(topic.partitions):
                shown[name] = replace(topic, partitions=topic.partitions[:count]) if count else None
        return self.with_topics(shown)

    def topics_changed_since(self, last: "ClusterView") -> Collection[str]:
        """The names of topics that came, went or may be others; of two views that do not follow each other all are compared."""
        if self.topics is last.topics:
            return ()
        if self.former_topics is last.topics:
            return self.changed_names
        names = self.topics.keys() | last.topics.keys()
        return {name for name in names if self.topics.get(name) is not last.topics.get(name)}


def _counted(topic: TopicState) -> int:
    return 0 if topic.is_internal else len(topic.partitions)
