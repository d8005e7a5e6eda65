import pytest

from millstream.cli.address import Address, parse_address
from millstream.errors import UsageError


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("127.0.0.1:9092", Address("127.0.0.1", 9092)),
        ("broker1.example:0", Address("broker1.example", 0)),
        ("[::1]:9092", Address("::1", 9092)),
        (":9092", Address("0.0.0.0", 9092)),
    ],
)
def test_an_address_is_a_host_and_a_port(text: str, address: Address) -> None:
    assert parse_address(text, "--listen") == address


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
def test_what_is_no_address_is_refused_with_the_name_of_the_flag(text: str) -> None:
    with pytest.raises(UsageError, match="--listen"):
        parse_address(text, "--listen")


def test_an_ipv6_address_is_written_in_brackets() -> None:
    assert str(Address("::1", 9092)) == "[::1]:9092"
