"""Profiles: brokers, registry and security of a cluster under a name, so that they need not be typed.

The file is `$MILLSTREAM_PROFILES`, or `millstream/profiles.toml` in `$XDG_CONFIG_HOME` (`~/.config`):

    [production]
    brokers = "kafka1.example:9093,kafka2.example:9093"
    registry = "https://registry.example:8081"
    zookeeper = "zk1.example:2181/millstream"        # where the paper's groups are
    metrics = "http://kafka1.example:9308"           # for `millstream top`

    [production.options]                             # of the client, by librdkafka's names, as -X has them
    "security.protocol" = "SASL_SSL"
    "sasl.mechanism" = "SCRAM-SHA-512"
    "sasl.username" = "alice"
    "sasl.password" = "..."

`--profile NAME`, anywhere on the command line, or `$MILLSTREAM_PROFILE` chooses one. What a flag says goes first; then the profile that
was named by a flag; then environment variables; then the profile of `$MILLSTREAM_PROFILE`. A file with a password that others may read is
refused.
"""

import os
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from millstream.errors import UsageError

if TYPE_CHECKING:
    from typer.core import TyperCommand, TyperGroup

FLAG: Final = "--profile"
NAME_VARIABLE: Final = "MILLSTREAM_PROFILE"
FILE_VARIABLE: Final = "MILLSTREAM_PROFILES"
VARIABLES: Final = {
    "brokers": "MILLSTREAM_BROKERS",
    "registry": "MILLSTREAM_REGISTRY",
    "zookeeper": "MILLSTREAM_ZOOKEEPER",
    "metrics": "MILLSTREAM_METRICS",
}
"""What a profile may hold besides options, and the environment variable that the same flag has."""
_SECRETS: Final = ("password", "secret", "jaas", "key.pem", "keystore.key", "token")


@dataclass(frozen=True)
class Profile:
    """What one profile says."""

    values: Mapping[str, str] = field(default_factory=dict)
    options: Sequence[str] = ()
    """As `-X` has them."""
    wins: bool = True
    """Over environment variables: it was named by the flag."""


def take_profile(arguments: Sequence[str], environment: Mapping[str, str]) -> tuple[Profile | None, list[str]]:
    """The profile that was chosen, if one was, and the arguments without the flag."""
    name, rest = _take_flag(list(arguments))
    wins = name is not None
    chosen = name if wins else environment.get(NAME_VARIABLE)
    if not chosen:
        return None, rest
    return read_profile(profiles_file(environment), chosen, wins=wins), rest


def _take_flag(arguments: list[str]) -> tuple[str | None, list[str]]:
    name: str | None = None
    rest: list[str] = []
    while arguments:
        word = arguments.pop(0)
        if word == "--":
            return name, [*rest, word, *arguments]
        if word == FLAG:
            if not arguments:
                raise UsageError(f"{FLAG} needs the name of a profile.")
            name = arguments.pop(0)
        elif word.startswith(f"{FLAG}="):
            name = word.removeprefix(f"{FLAG}=")
        else:
            rest.append(word)
    return name, rest


def profiles_file(environment: Mapping[str, str]) -> Path:
    """Where the profiles are."""
    if chosen := environment.get(FILE_VARIABLE):
        return Path(chosen)
    home = environment.get("XDG_CONFIG_HOME")
    return (Path(home) if home else Path.home() / ".config") / "millstream" / "profiles.toml"


def read_profile(path: Path, name: str, *, wins: bool = True) -> Profile:
    """One profile of a file; `UsageError` says what is wrong with either."""
    import tomllib

    try:
        with path.open("rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            document = tomllib.load(file)
    except OSError as error:
        advice = f"write it there, as docs/command-line.md shows, or name another file with ${FILE_VARIABLE}"
        raise UsageError(f"The profile {name!r} cannot be read: {path}: {error.strerror}; {advice}.") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"The profiles in {path} cannot be read: {error}.") from None
    if _has_secret(document) and stat.S_IMODE(mode) & 0o077:
        raise UsageError(f"{path} holds a password and others may read or write it: `chmod 600 {path}`.")
    found = document.get(name)
    if not isinstance(found, dict):
        known = ", ".join(sorted(key for key, value in document.items() if isinstance(value, dict))) or "none"
        raise UsageError(f"There is no profile {name!r} in {path}; there are: {known}.")
    return _profile(found, where=f"{path}, profile {name!r}", wins=wins)


def _profile(found: Mapping[str, Any], *, where: str, wins: bool) -> Profile:
    options = found.get("options", {})
    for key in found.keys() - VARIABLES.keys() - {"options"}:
        raise UsageError(f"{where}: {key!r} is unknown; a profile has {', '.join(VARIABLES)} and options.")
    for key in VARIABLES:
        if key in found and not isinstance(found[key], str):
            raise UsageError(f"{where}: {key} must be text in quotes.")
    if not isinstance(options, dict) or any(isinstance(value, dict | list) for value in options.values()):
        raise UsageError(f'{where}: options must be a table of names and values, the names in quotes: "sasl.username" = "alice".')
    assignments = [f"{key}={str(value).lower() if isinstance(value, bool) else value}" for key, value in options.items()]
    return Profile({key: found[key] for key in VARIABLES if key in found}, assignments, wins)


def _has_secret(value: object, name: str = "") -> bool:
    if isinstance(value, dict):
        return any(_has_secret(each, key) for key, each in value.items())
    is_url_with_password = name == "registry" and "@" in str(value)
    return is_url_with_password or any(word in name.lower() for word in _SECRETS)


def apply_profile(profile: Profile, command: "TyperGroup | TyperCommand") -> None:
    """Make what the profile says the default of the flags it is about, in this command and all below it."""
    by_variable = {VARIABLES[key]: value for key, value in profile.values.items()}
    for parameter in command.params:
        variable = parameter.envvar
        if isinstance(variable, str) and variable in by_variable:
            parameter.default = by_variable[variable]
            if profile.wins:
                parameter.envvar = None
        elif "-X" in parameter.opts:
            parameter.callback = _with_options(profile.options, parameter.callback)
    for below in getattr(command, "commands", {}).values():
        apply_profile(profile, below)


def _with_options(options: Sequence[str], following: Any) -> Any:
    """Put the options of the profile before those of `-X`, of which later ones win."""

    def prepended(context: Any, parameter: Any, value: Any) -> Any:
        given = following(context, parameter, value) if following is not None else value
        return [*options, *(given or [])]

    return prepended
