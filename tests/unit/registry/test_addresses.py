"""Addresses of registries: credentials with any characters are understood, decoded once, and never shown."""

import base64
import pickle

import pytest

from millstream.errors import UsageError
from millstream.registry.addresses import RegistryAddress, parse_addresses

SECRETS = ["pa/ss", "pa#ss", "pa?ss", "pa,ss", "pa%25ss", "pa%ss", "p@ss", "pa:ss", "p,http:/x", "pä ss", "1/2?3#4,5@6", ""]


def credentials(address: RegistryAddress) -> str:
    """Name and password as they are sent."""
    assert address.authorization is not None
    kind, _, encoded = address.authorization.partition(" ")
    assert kind == "Basic"
    return base64.b64decode(encoded).decode()


@pytest.mark.parametrize("secret", SECRETS)
def test_user_info_is_taken_as_it_is(secret: str) -> None:
    for address in parse_addresses("http://a:1, https://b/registry/", user_info=f"name:{secret}"):
        assert credentials(address) == f"name:{secret}"


@pytest.mark.parametrize(
    ("written", "meant"),
    [(secret, secret) for secret in SECRETS if "%25" not in secret] + [("a%25b", "a%b"), ("a%2525b", "a%25b"), ("a%2Fb", "a/b")],
)
def test_credentials_in_an_address_are_decoded_once(written: str, meant: str) -> None:
    first, second = parse_addresses(f"http://name:{written}@a:1/prefix,https://b:2")
    assert credentials(first) == f"name:{meant}"
    assert (str(first), str(second)) == ("http://a:1/prefix", "https://b:2")
    assert second.authorization is None


@pytest.mark.parametrize("secret", [secret for secret in SECRETS if secret])
def test_secrets_are_not_shown(secret: str) -> None:
    addresses = parse_addresses(f"http://name:{secret}@a:1") + parse_addresses("http://a:1", user_info=f"name:{secret}")
    for address in (*addresses, *pickle.loads(pickle.dumps(addresses))):
        assert secret not in repr(address) + str(address)
        assert "name" not in repr(address) + str(address)
        assert address.authorization is not None
        assert address.authorization not in repr(address)


@pytest.mark.parametrize(
    "text",
    [
        "http://name:{}@",
        "http://name:{}@a:port",
        "ftp://name:{}@a:1",
        "http://name:{}@a:1,b c",
        "http://name:{}@a:1?x",
        "http://name:{}@[a",
        "http://name:{}%40a:1",
    ],
)
@pytest.mark.parametrize("secret", [secret for secret in SECRETS if secret])
def test_what_is_wrong_is_reported_without_secrets(text: str, secret: str) -> None:
    with pytest.raises(UsageError, match="http://HOST:PORT") as caught:
        parse_addresses(text.format(secret))
    assert secret not in str(caught.value)
    assert "name" not in str(caught.value)


def test_a_token_after_a_question_mark_is_not_shown() -> None:
    with pytest.raises(UsageError, match="One of the addresses is no address"):
        parse_addresses("http://a:1/?token=hidden")


def test_credentials_are_given_once() -> None:
    with pytest.raises(UsageError, match="give them once") as caught:
        parse_addresses("http://name:hidden@a:1", user_info="other:hidden")
    assert "hidden" not in str(caught.value)


def test_addresses_without_secrets_are_shown_when_they_are_wrong() -> None:
    with pytest.raises(UsageError, match="'nonsense' is no address of a registry"):
        parse_addresses("http://a:1,nonsense", needs_scheme=True)
    assert [str(address) for address in parse_addresses("a:1,b, [::1]:8081/x/")] == ["http://a:1", "http://b:80", "http://[::1]:8081/x"]
