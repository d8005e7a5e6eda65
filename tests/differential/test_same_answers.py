"""Whatever is asked, Millstream answers what Apache Kafka 4.2 answers."""

import pytest

from tests.differential.classic_groups_scenario import ClassicGroupsScenario
from tests.differential.configs_scenario import ConfigsScenario
from tests.differential.consumer_groups_scenario import ConsumerGroupsScenario
from tests.differential.log_scenario import LogScenario
from tests.differential.migrating_groups_scenario import MigratingGroupsScenario
from tests.differential.offsets_scenario import OffsetsScenario
from tests.differential.pair import Pair
from tests.differential.pending_offsets_scenario import PendingOffsetsScenario
from tests.differential.scenario import Scenario
from tests.differential.tools_scenario import ToolsScenario
from tests.differential.topics_scenario import TopicsScenario
from tests.differential.transactions_scenario import TransactionsScenario

SCENARIOS: list[type[Scenario]] = [
    TopicsScenario,
    ConfigsScenario,
    ToolsScenario,
    LogScenario,
    OffsetsScenario,
    ClassicGroupsScenario,
    ConsumerGroupsScenario,
    MigratingGroupsScenario,
    TransactionsScenario,
    PendingOffsetsScenario,
]


@pytest.mark.timeout(900)
@pytest.mark.parametrize("kind", SCENARIOS, ids=lambda kind: str(kind.name))
def test_millstream_answers_as_kafka_does(pair: Pair, kind: type[Scenario], seed: int, steps: int) -> None:
    scenario = kind(pair, seed)
    scenario.run(steps)
    assert not scenario.found, scenario.report()
