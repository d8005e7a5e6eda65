import pytest

from millstream.client.admin.topic_creation import own_replicas
from millstream.wire.responses.describe_configs import DescribeConfigsResourceResult, DescribeConfigsResponse, DescribeConfigsResult


def answer(value: str | None) -> DescribeConfigsResponse:
    config = DescribeConfigsResourceResult(name="offsets.topic.replication.factor", value=value)
    return DescribeConfigsResponse(results=(DescribeConfigsResult(configs=(config,)),))


@pytest.mark.parametrize(
    ("brokers", "said", "replicas"),
    [(5, "3", 3), (2, "3", 2), (4, "1", 1), (5, "2", 2), (5, "5", 3), (1, "3", 1), (0, "3", 1), (4, None, 3), (4, "-1", 3)],
)
def test_a_topic_has_as_many_replicas_as_the_cluster_gives_to_its_own_and_at_most_three(
    brokers: int, said: str | None, replicas: int
) -> None:
    assert own_replicas(brokers, answer(said)) == replicas


def test_a_cluster_that_does_not_say_it_has_three() -> None:
    assert own_replicas(4, None) == 3
    assert own_replicas(4, DescribeConfigsResponse(results=(DescribeConfigsResult(error_code=29),))) == 3
