import pytest

from millstream.address import Address, parse_bootstrap_servers, parse_listen_address
from millstream.errors import UsageError


@pytest.mark.parametrize(
    ("servers", "addresses"),
    [
        ("localhost:9092", [("localhost", 9092)]),
        ("a:1, b:2,", [("a", 1), ("b", 2)]),
        (["a:1", "b:2,c:3"], [("a", 1), ("b", 2), ("c", 3)]),
        ("[::1]:9093", [("::1", 9093)]),
        ("broker", [("broker", 9092)]),
        ("[::1]", [("::1", 9092)]),
    ],
)
def test_addresses_are_read_as_people_write_them(servers: str | list[str], addresses: list[tuple[str, int]]) -> None:
    assert list(parse_bootstrap_servers(servers)) == addresses


@pytest.mark.parametrize("servers", ["", " , ", [], ":9092", "a:b", "a:0", "a:65536", "::1:9092", "[::1", "[]:1", "[::1]9092"])
def test_what_is_no_address_is_refused_with_an_example(servers: str | list[str]) -> None:
    with pytest.raises(UsageError, match="9092"):
        parse_bootstrap_servers(servers)


def test_an_address_is_shown_as_it_is_written() -> None:
    assert str(Address("::1", 9092)) == "[::1]:9092"
    assert str(Address("a", 1)) == "a:1"


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("127.0.0.1:9092", Address("127.0.0.1", 9092)),
        ("broker1.example:0", Address("broker1.example", 0)),
        ("[::1]:9092", Address("::1", 9092)),
        (":9092", Address("0.0.0.0", 9092)),
    ],
)
def test_where_to_listen_is_a_host_and_a_port(text: str, address: Address) -> None:
    assert parse_listen_address(text, "--listen") == address


@pytest.mark.parametrize(
    "text",
    [
        "9092",
        "localhost",
        "localhost:",
        "localhost:x",
        "localhost:65536",
        "localhost:-1",
        "::1:9092",
        "",
        "h:²",
        "a,b:1",
        "a b:1",
        "http://a:1",
    ],
)
def test_what_is_no_place_to_listen_is_refused_with_the_name_of_the_flag(text: str) -> None:
    with pytest.raises(UsageError, match="--listen"):
        parse_listen_address(text, "--listen")
