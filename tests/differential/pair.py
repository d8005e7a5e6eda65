"""Millstream and Apache Kafka side by side: one request goes to both, each with its own ids in it, and the two answers are compared."""

import time
from collections.abc import Mapping
from typing import Any

from tests.brokers import Broker
from tests.connection import API_VERSIONS, Connection, ConnectionEnded
from tests.differential.accepted import not_accepted
from tests.differential.answer import Compared, Unifier, tree
from tests.differential.symbol import Symbols

AGAIN_S = 10.0
"""How long Kafka may take until it shows what it has done: its answers to tools come before its own brokers have heard of a change."""
NO_ANSWER_S = 20.0


class Side:
    """One of the two brokers: its connections by name, and what symbols mean there."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.symbols = Symbols()
        self._connections: dict[str, Connection] = {}

    def send(self, connection: str, api_key: int, version: int, fields: Mapping[str, object]) -> None:
        """Send without waiting for the answer."""
        if connection not in self._connections:
            self._connections[connection] = self.broker.connect(timeout_s=NO_ANSWER_S)
        self._connections[connection].send(api_key, version, self.symbols.resolve(fields))

    def receive(self, connection: str, api_key: int, version: int) -> Any:
        """The answer, or a sentence where there is none."""
        try:
            return self._connections[connection].receive(api_key, version)[1]
        except ConnectionEnded:
            self.disconnect(connection)
            return "(the connection was closed)"
        except TimeoutError:
            self.disconnect(connection)
            return f"(no answer in {NO_ANSWER_S:g} s)"

    def disconnect(self, connection: str) -> None:
        """Close a connection; the next request opens a new one."""
        if connection in self._connections:
            self._connections.pop(connection).close()

    def close(self) -> None:
        """Close all connections."""
        for name in list(self._connections):
            self.disconnect(name)

    def versions(self) -> dict[int, tuple[int, int]]:
        """What it says it answers."""
        with self.broker.connect() as connection:
            return {one.api_key: (one.min_version, one.max_version) for one in connection.ask(API_VERSIONS, 0).api_keys}


class Pair:
    """Both brokers."""

    def __init__(self, kafka: Broker, ours: Broker) -> None:
        self.kafka = Side(kafka)
        self.ours = Side(ours)
        self._unifier = Unifier(self.kafka.symbols, self.ours.symbols)
        known, offered = self.kafka.versions(), self.ours.versions()
        self.versions = {key: (max(known[key][0], low), min(known[key][1], high)) for key, (low, high) in offered.items() if key in known}
        """The versions of each API that both answer."""

    def send(self, api_key: int, version: int, fields: Mapping[str, object], *, connection: str) -> None:
        """Send a request to both."""
        for side in (self.kafka, self.ours):
            side.send(connection, api_key, version, fields)

    def receive(self, api_key: int, version: int, *, connection: str, prefix: str) -> Compared:
        """The answers of both to what was sent on this connection."""
        kafka = self.kafka.receive(connection, api_key, version)
        ours = self.ours.receive(connection, api_key, version)
        return self._compare(kafka, ours, prefix)

    def ask(self, api_key: int, version: int, fields: Mapping[str, object], *, connection: str, prefix: str, is_question: bool) -> Compared:
        """Ask both; if the request changes nothing, Kafka gets time to come to the answer that Millstream gave at once."""
        self.send(api_key, version, fields, connection=connection)
        kafka = self.kafka.receive(connection, api_key, version)
        ours = self.ours.receive(connection, api_key, version)
        compared = self._compare(kafka, ours, prefix)
        end = time.monotonic() + AGAIN_S
        pause_s = 0.002
        while is_question and not_accepted(api_key, compared) and time.monotonic() < end:
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, 0.1)
            self.kafka.send(connection, api_key, version, fields)
            compared = self._compare(self.kafka.receive(connection, api_key, version), ours, prefix)
        return compared

    def disconnect(self, connection: str) -> None:
        """Close a connection at both."""
        self.kafka.disconnect(connection)
        self.ours.disconnect(connection)

    def close(self) -> None:
        """Close all connections."""
        self.kafka.close()
        self.ours.close()

    def _compare(self, kafka: Any, ours: Any, prefix: str) -> Compared:
        kafka_tree = tree(kafka, self.kafka.symbols, prefix=prefix)
        ours_tree = tree(ours, self.ours.symbols, prefix=prefix)
        differences = list(self._unifier.differences(kafka_tree, ours_tree))
        return Compared(kafka_tree, ours_tree, tree(kafka, self.kafka.symbols, prefix=prefix), differences)
