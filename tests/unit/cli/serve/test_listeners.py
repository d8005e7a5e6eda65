import pytest

from millstream.cli.serve.listeners import take_listeners
from millstream.errors import UsageError


def test_one_listener_for_clients_remains_where_controllers_have_one_too() -> None:
    options = {
        "listeners": "CLIENTS://:9092,CONTROLLER://:9093",
        "advertised.listeners": "CLIENTS://broker1.example:9092,CONTROLLER://localhost:9093",
        "controller.listener.names": "CONTROLLER",
        "listener.security.protocol.map": "CONTROLLER:SSL,CLIENTS:PLAINTEXT",
        "num.partitions": "3",
    }
    listen, advertise = take_listeners(options)
    assert listen == ("0.0.0.0", 9092)
    assert advertise == ("broker1.example", 9092)
    assert sorted(options) == ["controller.listener.names", "listener.security.protocol.map", "num.partitions"]


def test_without_the_options_nothing_is_said() -> None:
    assert take_listeners({}) == (None, None)


def test_addresses_of_ipv6_are_written_in_brackets() -> None:
    assert take_listeners({"listeners": "plaintext://[::1]:9092"}).listen == ("::1", 9092)


@pytest.mark.parametrize(
    ("options", "hint"),
    [
        ({"listeners": "PLAINTEXT://:9092,HOST://:9093", "listener.security.protocol.map": "HOST:PLAINTEXT"}, "PLAINTEXT, HOST"),
        ({"listeners": "CONTROLLER://:9093", "controller.listener.names": "CONTROLLER"}, "has none"),
        ({"listeners": "SSL://:9092"}, "speaks SSL"),
        ({"listeners": "BROKER://:9092"}, "speaks BROKER"),
        ({"listeners": "localhost:9092"}, "NAME://HOST:PORT"),
        ({"listeners": "PLAINTEXT://localhost"}, "HOST:PORT"),
        ({"advertised.listeners": "PLAINTEXT://localhost:0"}, "port 0"),
        ({"advertised.listeners": "PLAINTEXT://:9092"}, "cannot connect to 0.0.0.0"),
        ({"advertised.listeners": "PLAINTEXT://[::]:9092"}, "cannot connect to ::"),
        ({"listener.security.protocol.map": "PLAINTEXT"}, "NAME:PROTOCOL"),
        (
            {
                "listeners": "A://:1",
                "advertised.listeners": "B://:1",
                "listener.security.protocol.map": "A:PLAINTEXT,B:PLAINTEXT",
            },
            "same listener",
        ),
    ],
)
def test_listeners_that_cannot_all_be_served_are_refused(options: dict[str, str], hint: str) -> None:
    with pytest.raises(UsageError, match=hint):
        take_listeners(options)
