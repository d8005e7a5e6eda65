"""Flags that the commands of `millstream mirror` share, and the clusters that they name."""

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from millstream.errors import CommandFailed, UsageError

if TYPE_CHECKING:
    from millstream.client.security.client_security import ClientSecurity
    from millstream.mirror.clusters.side import Side
    from millstream.mirror.mirror_source import MirrorSource

Target = Annotated[
    str, typer.Option("--to", metavar="HOST:PORT[,...]", envvar="MILLSTREAM_BROKERS", help="Brokers of the cluster that gets the copy.")
]
TargetConfig = Annotated[
    Path | None, typer.Option("--to-config", metavar="FILE", help="Properties with TLS and login of the cluster that gets the copy.")
]
SourceConfig = Annotated[
    Path | None, typer.Option("--from-config", metavar="FILE", help="Properties with TLS and login of the cluster that is copied.")
]
MirrorName = Annotated[str, typer.Option("--name", help="Name of the mirror.")]
Topics = Annotated[str | None, typer.Option(metavar="REGEX", help="Mirrored topics: the whole name has to match. [default: all]")]
DEFAULT_NAME = "mirror"
LOOK_S = 3.0
"""How long a broker that is asked how things are may take; another one is asked then."""


def security_of(path: Path | str | None) -> "ClientSecurity":
    """The security that a file of properties asks for; its other options are left alone."""
    from millstream.cli.properties import read_properties
    from millstream.client.security.client_security import NO_SECURITY, ClientSecurity

    if not path:
        return NO_SECURITY
    try:
        return ClientSecurity.of(read_properties(Path(path)))
    except UsageError as error:
        raise UsageError(f"{path}: {error}") from None


def open_side(servers: str, config: Path | None, *, is_watched: bool = False) -> "Side":
    """One of the two clusters; on the event loop that it is used on. Where only a person waits for it (`is_watched`), not as patiently."""
    from millstream.mirror.clusters.side import TIMEOUT_S, secured_side

    return secured_side(servers, security_of(config), timeout_s=LOOK_S if is_watched else TIMEOUT_S)


def pattern_of(topics: str) -> "re.Pattern[str]":
    """What --topics says."""
    try:
        return re.compile(topics)
    except re.error as error:
        raise UsageError(f"{topics!r} is no regular expression for topics: {error}") from None


async def matching(target: "Side", topics: str) -> "dict[str, MirrorSource]":
    """The mirrored topics of a cluster whose names match; `CommandFailed` if there are none."""
    from millstream.mirror.topics.promotion import mirrored_topics

    pattern = pattern_of(topics)
    mirrored = await mirrored_topics(target)
    found = {name: source for name, source in mirrored.items() if pattern.fullmatch(name)}
    if not found:
        raise CommandFailed(f"no mirrored topic at {target} matches {topics!r}; mirrored are {', '.join(mirrored) or 'none'}")
    return found
