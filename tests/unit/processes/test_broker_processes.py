import pytest

from millstream.processes.broker_processes import DESCRIPTORS_OF_A_CHILD, MOST_PROCESSES, OWN_DESCRIPTORS, coordination_clients


@pytest.mark.parametrize("processes", [1, 4, MOST_PROCESSES])
@pytest.mark.parametrize("limit", [400, 1_024, 4_096, 1_048_576])
def test_clients_of_the_tree_leave_the_descriptors_that_start_a_broker_again(limit: int, processes: int) -> None:
    others = coordination_clients(limit, processes=processes) - processes
    assert 4 <= others <= 1_000
    assert others + processes * DESCRIPTORS_OF_A_CHILD + OWN_DESCRIPTORS <= limit


def test_every_broker_reaches_the_tree_however_few_descriptors_there_are() -> None:
    assert coordination_clients(60, processes=MOST_PROCESSES) == MOST_PROCESSES + 4
