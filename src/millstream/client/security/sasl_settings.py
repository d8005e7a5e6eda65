"""Who logs in at a broker, and how: the options `sasl.*` of Kafka and librdkafka.

User and password stand in options of their own, as librdkafka has them, or in a line of JAAS, as Kafka's clients do. A login with a token
(OAUTHBEARER) gets it from a file or from an OpenID provider; see `client.oauth_token`. Kerberos is not there.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import urlsplit

from millstream.client.errors import SecurityOptionError
from millstream.client.security.jaas import parse_jaas

PLAIN: Final = "PLAIN"
OAUTHBEARER: Final = "OAUTHBEARER"
MECHANISMS: Final = (PLAIN, "SCRAM-SHA-256", "SCRAM-SHA-512", OAUTHBEARER)

_MODULES: Final = {
    "PlainLoginModule": (PLAIN,),
    "ScramLoginModule": ("SCRAM-SHA-256", "SCRAM-SHA-512"),
    "OAuthBearerLoginModule": (OAUTHBEARER,),
}
_MECHANISM: Final = ("sasl.mechanism", "sasl.mechanisms")
_JAAS: Final = "sasl.jaas.config"
_METHOD: Final = "sasl.oauthbearer.method"
_TOKEN_URL: Final = "sasl.oauthbearer.token.endpoint.url"  # noqa: S105 - the name of an option
_EXTENSIONS: Final = "sasl.oauthbearer.extensions"
_USER: Final = {"username": ("sasl.username",), "password": ("sasl.password",)}
_CLIENT: Final = {
    "clientId": ("sasl.oauthbearer.client.id", "sasl.oauthbearer.client.credentials.client.id"),
    "clientSecret": ("sasl.oauthbearer.client.secret", "sasl.oauthbearer.client.credentials.client.secret"),
    "scope": ("sasl.oauthbearer.scope",),
}
"""What JAAS calls a thing, and the options of librdkafka and Kafka that say the same."""
_EXTENSION_PREFIX: Final = "extension_"
SASL_OPTIONS: Final = frozenset({
    *_MECHANISM, _JAAS, _METHOD, _TOKEN_URL, _EXTENSIONS, *(name for names in (_USER | _CLIENT).values() for name in names),
})  # fmt: skip


@dataclass(frozen=True, slots=True)
class OAuthSettings:
    """Where tokens come from: a file, or an endpoint with the id and secret of this client."""

    token_url: str
    client_id: str = ""
    client_secret: str = field(default="", repr=False)
    scope: str = ""
    extensions: tuple[tuple[str, str], ...] = ()
    """Names and values that are sent beside the token (KIP-342)."""


@dataclass(frozen=True, slots=True)
class SaslSettings:
    """A mechanism with a user and password, or with a source of tokens."""

    mechanism: str
    username: str = ""
    password: str = field(default="", repr=False)
    oauth: OAuthSettings | None = None

    @property
    def who(self) -> str:
        """How a message names who logs in."""
        return f"client {self.oauth.client_id!r}" if self.oauth else f"user {self.username!r}"


def parse_sasl(options: Mapping[str, str]) -> SaslSettings:
    """The login that these options describe."""
    mechanism = (_one_of(options, _MECHANISM) or "").strip().upper()
    if mechanism not in MECHANISMS:
        problem = f"{mechanism!r} is none of {', '.join(MECHANISMS)}" if mechanism else f"it is required: {', '.join(MECHANISMS)}"
        if mechanism == "GSSAPI":
            problem += "; there is no Kerberos here: use another one that the brokers' sasl.enabled.mechanisms has, or can be given"
        raise SecurityOptionError(_MECHANISM[0], problem)
    from_jaas = _jaas_options(options, mechanism)
    if mechanism == OAUTHBEARER:
        return SaslSettings(mechanism, oauth=_oauth(options, from_jaas))
    username, password = (_value(options, from_jaas, name, names) for name, names in _USER.items())
    for name, value in (("sasl.username", username), ("sasl.password", password)):
        if not value:
            raise SecurityOptionError(name, f"{mechanism} needs it, here or in sasl.jaas.config")
        if mechanism == PLAIN and "\0" in value:
            raise SecurityOptionError(name, "PLAIN cannot send a zero character")
    return SaslSettings(mechanism, username, password)


def _jaas_options(options: Mapping[str, str], mechanism: str) -> Mapping[str, str]:
    if _JAAS not in options:
        return {}
    try:
        module = parse_jaas(options[_JAAS])
    except ValueError as error:
        raise SecurityOptionError(_JAAS, str(error)) from None
    if mechanism not in _MODULES.get(module.name, ()):
        fitting = next(name for name, mechanisms in _MODULES.items() if mechanism in mechanisms)
        raise SecurityOptionError(_JAAS, f"{module.name} does not log in by {mechanism}: {fitting} does")
    return module.options


def _oauth(options: Mapping[str, str], from_jaas: Mapping[str, str]) -> OAuthSettings:
    if options.get(_METHOD, "oidc").lower() != "oidc":
        raise SecurityOptionError(_METHOD, f"only oidc is possible here, with {_TOKEN_URL}")
    url = options.get(_TOKEN_URL, "").strip()
    scheme = urlsplit(url).scheme
    if scheme not in {"http", "https", "file"}:
        raise SecurityOptionError(_TOKEN_URL, "OAUTHBEARER needs it: an address with https, or file:///... for a file that holds the token")
    client_id, client_secret, scope = (_value(options, from_jaas, name, names) for name, names in _CLIENT.items())
    if scheme != "file" and not (client_id and client_secret):
        raise SecurityOptionError(_CLIENT["clientId" if not client_id else "clientSecret"][0], f"{_TOKEN_URL} needs it")
    return OAuthSettings(url, client_id, client_secret, scope, _extensions(options, from_jaas))


def _extensions(options: Mapping[str, str], from_jaas: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    parts = [part.partition("=") for part in options.get(_EXTENSIONS, "").split(",") if part.strip()]
    if not all(name.strip() and equals for name, equals, _ in parts):
        raise SecurityOptionError(_EXTENSIONS, "expected name=value, separated by commas")
    own = {name.strip(): value.strip() for name, _, value in parts}
    prefixed = {name.removeprefix(_EXTENSION_PREFIX): value for name, value in from_jaas.items() if name.startswith(_EXTENSION_PREFIX)}
    return tuple(sorted((prefixed | own).items()))


def _value(options: Mapping[str, str], from_jaas: Mapping[str, str], jaas_name: str, names: tuple[str, ...]) -> str:
    own = _one_of(options, names)
    if own is not None and jaas_name in from_jaas:
        raise SecurityOptionError(names[0], f"sasl.jaas.config has {jaas_name}, too: give one of the two")
    return from_jaas.get(jaas_name, "") if own is None else own


def _one_of(options: Mapping[str, str], names: tuple[str, ...]) -> str | None:
    """The value of an option that has several names; two names with different values are a mistake."""
    values = {options[name] for name in names if name in options}
    if len(values) > 1:
        raise SecurityOptionError(names[0], f"{' and '.join(names)} mean the same and say different things: give one of them")
    return values.pop() if values else None
