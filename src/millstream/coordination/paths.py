"""Where things are in the tree of znodes: the paper's registries, as Kafka 0.8 refined them.

    /brokers/ids/<id>                       ephemeral: host, port, epoch
    /brokers/directories/<id>               persistent: the data directories of a broker, by their ids
    /brokers/epochs/<id>                    persistent: the life of a broker that the controller has dealt with last, by its broker epoch
    /brokers/topics                         which layout the topics below have (decimal)
    /brokers/topics/<topic>                 topic id, configs, number of partitions, phase
    /brokers/topics/<topic>/partitions/<p>  replicas, leader, leader epoch, ISR, eligible leaders; its version is the partition epoch
    /changes                                which topics and partitions the controller has written lately: the one list that brokers watch
    /controller                             ephemeral: the broker that leads the cluster
    /controller_epoch                       decimal; its version fences the writes of older controllers
    /config/brokers/<id>                    configs of one broker; `<default>` for all
    /config/topics/<topic>                  reserved; topic configs live in the topic's own znode
    /producer_ids                           the next block of producer ids
    /processes                              how many brokers of one machine share the embedded tree; absent where one always was alone
    /cluster_id                             the name of the cluster, made once
    /consumers/<group>/ids/<consumer>       ephemeral: subscription
    /consumers/<group>/owners/<topic>/<p>   ephemeral: which consumer owns the partition
    /consumers/<group>/offsets/<topic>/<p>  persistent: next offset to read, decimal ASCII

Only places are named here; what the data means belongs to the code that writes it.
"""

BROKERS = "/brokers"
BROKER_IDS = "/brokers/ids"
BROKER_DIRECTORIES = "/brokers/directories"
BROKER_EPOCHS = "/brokers/epochs"
TOPICS = "/brokers/topics"
CHANGES = "/changes"
CONTROLLER = "/controller"
CONTROLLER_EPOCH = "/controller_epoch"
CONFIG = "/config"
BROKER_CONFIGS = "/config/brokers"
TOPIC_CONFIGS = "/config/topics"
PRODUCER_IDS = "/producer_ids"
PROCESSES = "/processes"
CLUSTER_ID = "/cluster_id"
CONSUMERS = "/consumers"

PERSISTENT_PARENTS = (
    BROKERS,
    BROKER_IDS,
    BROKER_DIRECTORIES,
    BROKER_EPOCHS,
    TOPICS,
    CHANGES,
    CONFIG,
    BROKER_CONFIGS,
    TOPIC_CONFIGS,
    CONSUMERS,
)
"""What the first broker creates, parents first, before anything else is written."""


def broker(broker_id: int) -> str:
    """The registration of a live broker."""
    return f"{BROKER_IDS}/{broker_id}"


def broker_directories(broker_id: int) -> str:
    """What is remembered of the data directories of a broker."""
    return f"{BROKER_DIRECTORIES}/{broker_id}"


def broker_epoch(broker_id: int) -> str:
    """Which life of a broker the controller has dealt with last."""
    return f"{BROKER_EPOCHS}/{broker_id}"


def topic(name: str) -> str:
    """What all partitions of a topic have in common."""
    return f"{TOPICS}/{name}"


def partitions(topic_name: str) -> str:
    """The parent of the partitions of a topic."""
    return f"{TOPICS}/{topic_name}/partitions"


def partition(topic_name: str, number: int) -> str:
    """The state of one partition."""
    return f"{TOPICS}/{topic_name}/partitions/{number}"


def broker_config(broker_id: int | None) -> str:
    """Configs of one broker, or of all where `broker_id` is None."""
    return f"{BROKER_CONFIGS}/{'<default>' if broker_id is None else broker_id}"


def consumer_ids(group: str) -> str:
    """The live consumers of a group."""
    return f"{CONSUMERS}/{group}/ids"


def consumer(group: str, consumer_id: str) -> str:
    """The registration of one consumer: what it subscribes to."""
    return f"{consumer_ids(group)}/{consumer_id}"


def partition_owner(group: str, *, topic_name: str, partition: int) -> str:
    """Which consumer of the group owns the partition."""
    return f"{CONSUMERS}/{group}/owners/{topic_name}/{partition}"


def committed_offset(group: str, *, topic_name: str, partition: int) -> str:
    """The next offset the group reads from the partition."""
    return f"{CONSUMERS}/{group}/offsets/{topic_name}/{partition}"
