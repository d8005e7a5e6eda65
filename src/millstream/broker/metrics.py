"""What can be read off a broker, by the names of Kafka's metrics: the one list that an endpoint or a console reads.

There are no callbacks for counting. Each part keeps plain integers of what it does (`Connection.bytes_received`) or has a length, and a
reader fetches them when asked: a metric costs nothing until then. A new one is an integer in its owner and a line here.
"""

from collections.abc import Callable, Mapping

from millstream.broker.handlers.fetch_sessions import FetchSessions
from millstream.broker.network.listener import Listener
from millstream.broker.storage.storage import Storage

Metrics = Mapping[str, Callable[[], int]]


def metrics_of(storage: Storage, listener: Listener, fetch_sessions: FetchSessions) -> Metrics:
    """Every metric with its reader."""
    logs, replicas = storage.logs, storage.replicas
    return {
        "kafka.log:type=LogManager,name=OfflineLogDirectoryCount": lambda: len(logs.directories) - len(logs.online_directories),
        "kafka.server:type=FetchSessionCache,name=NumIncrementalFetchSessions": lambda: len(fetch_sessions),
        "kafka.server:type=ReplicaManager,name=LeaderCount": lambda: sum(partition.is_leader for partition in replicas),
        "kafka.server:type=ReplicaManager,name=PartitionCount": lambda: sum(1 for _ in replicas),
        "kafka.server:type=socket-server-metrics,name=connection-count": lambda: len(listener.connections),
        "kafka.server:type=socket-server-metrics,name=incoming-byte-total": lambda: (
            listener.bytes_of_closed + sum(connection.bytes_received for connection in listener.connections)
        ),
    }


def read(metrics: Metrics) -> dict[str, int]:
    """The values now."""
    return {name: reader() for name, reader in metrics.items()}
