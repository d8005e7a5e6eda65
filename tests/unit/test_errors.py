import inspect

import pytest

from millstream import admin_errors, errors, transaction_errors
from millstream.errors import KafkaError, MillstreamError, StartupError, UnknownServerError, UsageError

MODULES = (errors, transaction_errors, admin_errors)
ALL_ERRORS = list(
    dict.fromkeys(
        value for module in MODULES for value in vars(module).values() if isinstance(value, type) and issubclass(value, MillstreamError)
    )
)
KAFKA_ERRORS = [error for error in ALL_ERRORS if issubclass(error, KafkaError) and "code" in vars(error)]
"""Those without a code of their own are cases of another one, which clients are answered."""


@pytest.mark.parametrize("error", ALL_ERRORS, ids=lambda error: error.__name__)
def test_every_error_stands_in_the_tree_of_the_module(error: type[MillstreamError]) -> None:
    (tree,) = [module.__doc__ for module in MODULES if module.__name__ == error.__module__]
    assert tree is not None
    assert error.__name__ in tree.replace(",", " ").split()


@pytest.mark.parametrize("error", ALL_ERRORS, ids=lambda error: error.__name__)
def test_every_error_says_what_it_means(error: type[MillstreamError]) -> None:
    assert inspect.getdoc(error)


def test_no_two_errors_share_a_code() -> None:
    specific = [error for error in KAFKA_ERRORS if error not in (KafkaError, UnknownServerError)]
    codes = [error.code for error in specific]
    assert len(set(codes)) == len(codes)
    assert all(code > 0 for code in codes)


def test_an_error_of_ours_has_the_code_of_an_unknown_server_error() -> None:
    assert UnknownServerError.code == KafkaError.code == -1


@pytest.mark.parametrize("error", KAFKA_ERRORS, ids=lambda error: error.__name__)
def test_codes_are_those_that_clients_know(error: type[KafkaError]) -> None:
    """Looks the codes up in kio's table, by a name with the same letters."""
    from kio.schema.errors import ErrorCode

    known = {code.name.replace("_", ""): int(code) for code in ErrorCode}
    name = NAMES_OF_KAFKA.get(error.__name__, error.__name__).lower()
    if error is not KafkaError:
        assert known[name] == error.code


NAMES_OF_KAFKA = {
    "StorageError": "KafkaStorageError",
    "InvalidTopic": "InvalidTopicException",
}
"""Where our name is not Kafka's."""


def test_a_broker_that_cannot_start_is_a_mistake_of_usage() -> None:
    assert issubclass(StartupError, UsageError)
    assert not issubclass(UsageError, KafkaError)
