import inspect
from types import ModuleType

import pytest

from millstream.client import errors
from millstream.client.errors import ClientError, is_retriable, kafka_error
from millstream.errors import KafkaError, NotLeaderOrFollower, OffsetOutOfRange, UnknownServerError
from millstream.paper import errors as paper_errors

TRANSACTIONAL_ID_NOT_FOUND = 105
OWN_ERRORS = [
    (module, value)
    for module in (errors, paper_errors)
    for value in vars(module).values()
    if isinstance(value, type) and issubclass(value, ClientError)
]


@pytest.mark.parametrize(("module", "error"), OWN_ERRORS, ids=lambda value: value.__name__)
def test_every_error_stands_in_the_tree_of_the_module_and_says_what_it_means(module: ModuleType, error: type[ClientError]) -> None:
    assert module.__doc__ is not None
    assert error.__name__ in module.__doc__.replace(",", " ").split()
    assert inspect.getdoc(error)


def test_a_code_becomes_the_exception_of_that_name() -> None:
    error = kafka_error(1, "offset 7 of clicks-0")
    assert isinstance(error, OffsetOutOfRange)
    assert str(error) == "offset 7 of clicks-0"
    assert "below the log's start" in str(kafka_error(1))


def test_a_code_of_a_newer_broker_keeps_its_number() -> None:
    error = kafka_error(999, "writing failed")
    assert type(error) is KafkaError
    assert error.code == 999
    assert "writing failed (error code 999)" in str(error)
    assert KafkaError.code == -1


def test_an_error_of_the_brokers_own_is_an_unknown_server_error() -> None:
    assert isinstance(kafka_error(-1), UnknownServerError)


def test_what_another_leader_or_another_moment_cures_may_be_tried_again() -> None:
    assert is_retriable(NotLeaderOrFollower.code)
    assert not is_retriable(OffsetOutOfRange.code)
    assert not is_retriable(TRANSACTIONAL_ID_NOT_FOUND)
