"""A scenario: steps drawn from a seed, each one or a few requests that go to both brokers.

What a step may ask for comes from a small model of what was made so far, in symbols and names, so that the same seed draws the same steps
whatever ids the brokers chose. The run goes on after a difference: the first one tells, those after it may follow from it.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pprint import pformat
from random import Random
from typing import Any, ClassVar, NamedTuple, TypeVar

from kio.schema.index import api_key_map

from tests.connection import CREATE_TOPICS, METADATA
from tests.differential.accepted import not_accepted
from tests.differential.answer import Compared, Difference
from tests.differential.pair import Pair
from tests.differential.symbol import Symbol
from tests.topics import LATEST

T = TypeVar("T")

QUESTIONS = {2, 3, 9, 10, 15, 16, 18, 23, 29, 32, 35, 46, 48, 50, 55, 60, 61, 66, 69, 74, 75}
"""APIs that change nothing, so that they may be asked again: ListOffsets, Metadata, OffsetFetch, everything that lists or describes."""
LIST_OFFSETS = 2
SHOWN = 4
"""How many differences a report tells in full."""


class Found(NamedTuple):
    """A request that the brokers answered differently."""

    step: int
    request: str
    compared: Compared
    differences: list[Difference]

    def __str__(self) -> str:
        fields = [f"  {one.path}: Kafka {one.kafka!r}, Millstream {one.ours!r}" for one in self.differences]
        answers = [
            f"{who}:\n{pformat(answer, width=150)}" for who, answer in (("Kafka", self.compared.kafka), ("Millstream", self.compared.ours))
        ]
        return "\n".join([f"step {self.step}: {self.request}", *fields, *answers])


class Scenario(ABC):
    """One run of steps of one kind."""

    name: ClassVar[str]

    def __init__(self, pair: Pair, seed: int) -> None:
        self.pair = pair
        self.seed = seed
        self.random = Random(f"{self.name} {seed}")
        self.prefix = f"d-{self.name}-{seed}-"
        self.topic_ids: dict[str, Symbol] = {}
        self.partitions: dict[str, int] = {}
        self.found: list[Found] = []
        self.differences: list[Difference] = []
        """Those of the last answer, accepted ones too."""
        self._step = 0

    def run(self, steps: int) -> None:
        """Prepare, and take so many steps."""
        self.prepare()
        for self._step in range(1, steps + 1):
            try:
                self.step()
            except Exception:
                if not self.found:
                    raise
                break  # after a difference, such as a topic that only one of the two has, the next steps may make no sense
        self._step = 0
        self.clean_up()

    @abstractmethod
    def prepare(self) -> None:
        """What every run begins with."""

    @abstractmethod
    def step(self) -> None:
        """Draw one step and take it."""

    def clean_up(self) -> None:
        """Delete the topics, so that the next scenario finds quick brokers."""
        for name in self.topic_ids.keys() - {"__consumer_offsets"}:
            self.pair.send(20, 5, {"topic_names": [name], "timeout_ms": 10_000}, connection="clean-up")
            self.pair.receive(20, 5, connection="clean-up", prefix=self.prefix)
        self.pair.close()

    # --- asking ---

    def offers(self, api_key: int) -> bool:
        """Whether both brokers have the API."""
        return api_key in self.pair.versions

    def version(self, api_key: int, lowest: int = 0, highest: int = 99) -> int:
        """One of the versions that both have."""
        low, high = self.pair.versions[api_key]
        return self.random.randint(max(low, lowest), min(high, highest))

    def ask(self, api_key: int, fields: Mapping[str, object], *, version: int | None = None, connection: str = "main") -> Any:
        """Ask both and compare; returns the answer, as a tree with symbols."""
        version = self.version(api_key) if version is None else version
        is_question = api_key in QUESTIONS
        compared = self.pair.ask(api_key, version, fields, connection=connection, prefix=self.prefix, is_question=is_question)
        return self._note(api_key, version, fields, compared)

    def send(self, api_key: int, fields: Mapping[str, object], *, version: int, connection: str) -> None:
        """Send to both what may not be answered before something else happens."""
        self.pair.send(api_key, version, fields, connection=connection)

    def receive(self, api_key: int, fields: Mapping[str, object], *, version: int, connection: str) -> Any:
        """Compare the answers to what was sent."""
        compared = self.pair.receive(api_key, version, connection=connection, prefix=self.prefix)
        return self._note(api_key, version, fields, compared)

    def _note(self, api_key: int, version: int, fields: Mapping[str, object], compared: Compared) -> Any:
        self.differences = compared.differences
        differences = not_accepted(api_key, compared)
        if differences:
            request = f"{api_key_map[api_key]} v{version} {dict(fields)!r}"
            self.found.append(Found(self._step, request, compared, differences))
        return compared.answer

    # --- drawing ---

    def chance(self, percent: int) -> bool:
        """True so often."""
        return self.random.randrange(100) < percent

    def mostly(self, usual: T, *odd: T, percent: int = 88) -> T:
        """The usual value, or now and then an odd one."""
        return usual if self.chance(percent) else self.random.choice(odd)

    def some(self, choices: Sequence[T], most: int = 3) -> list[T]:
        """A few of them, in any order."""
        return self.random.sample(list(choices), min(len(choices), self.random.randint(1, most)))

    # --- topics ---

    def create_topic(self, name: str, partitions: int = 1, configs: Mapping[str, str] | None = None) -> None:
        """A topic that both have, ready for use."""
        entry = {
            "name": name,
            "num_partitions": partitions,
            "replication_factor": 1,
            "configs": [{"name": key, "value": value} for key, value in (configs or {}).items()],
        }
        self.ask(CREATE_TOPICS, {"topics": [entry], "timeout_ms": 30_000})
        self.settle(name, partitions)

    def settle(self, name: str, partitions: int) -> None:
        """Wait until Kafka's broker serves what its controller has decided, and learn the topic's id."""
        wanted = {"name": name, "topic_id": None}
        answer = self.ask(METADATA, {"topics": [wanted], "allow_auto_topic_creation": False}, version=12)
        self.ask(
            LIST_OFFSETS,
            {
                "replica_id": -1,
                "topics": [
                    {"name": name, "partitions": [{"partition_index": index, "timestamp": LATEST} for index in range(partitions)]},
                ],
            },
            version=7,
        )
        self.topic_ids[name] = answer["topics"][0]["topic_id"]
        self.partitions[name] = partitions

    def topic(self, name: str) -> dict[str, object]:
        """How a request names a topic, by whichever field its version has."""
        identity: object = self.topic_ids.get(name)
        return {"name": name, "topic": name, "topic_id": identity}

    # --- telling ---

    def report(self) -> str:
        """What was different, and how to see it again."""
        lines = [f"{len(self.found)} answers of scenario {self.name}, seed {self.seed}, differ from Kafka's"]
        for one in self.found[:SHOWN]:
            command = f"scripts/test tests/differential -k {self.name} --first-seed {self.seed} --seeds 1 --steps {one.step}"
            lines += ["", str(one), f"again: {command}"]
        return "\n".join(lines)
