"""The settings of a mirror: from the command line, or from a TOML file with the same names.

name = "analytics"
from = "live-1:9092,live-2:9092"
to = "offline-1:9092"
topics = "orders|clicks.*"
limit-bytes = 50000000
"""

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Final, Self

from millstream.audited.settings import audit_settings
from millstream.errors import UsageError
from millstream.mirror.group_names import progress_group

_NAMES: Final = {"from": "source", "to": "target"}
_NUMBERS: Final = {"limit_bytes": int, "refresh_s": (int, float), "commit_s": (int, float), "max_held_bytes": int}
_FLAGS: Final = frozenset({"alone", "groups", "merge", "exactly_once"})
_MERGING_ONLY: Final = ("prefix", "exactly_once")
_COPYING_ONLY: Final = ("limit_bytes", "audit", "alone", "from_zookeeper", "to_zookeeper")
_NAME: Final = re.compile(r"[A-Za-z0-9._-]{1,100}")


@dataclass(frozen=True)
class MirrorSettings:
    """The settings of one mirror."""

    source: str
    """Brokers of the cluster that is copied."""
    target: str
    """Brokers of the cluster that gets the copy."""
    topics: str
    """A regular expression that the whole name of a topic has to match."""
    name: str = "mirror"
    """Mirrors of the same name share their progress."""
    limit_bytes: int = 0
    """Bytes per second that are read from the source; 0 is no limit."""
    refresh_s: float = 3.0
    """Time between two looks for new topics, partitions and options."""
    commit_s: float = 2.0
    """Time between two commits of the progress."""
    max_held_bytes: int = 64 << 20
    """Bytes that were fetched and not yet acknowledged by the target, of all partitions together."""
    audit: str = ""
    """The tier of the audit under which it reports what it copied; without a name it reports nothing."""
    from_config: str = ""
    """A file of properties with the options of security of the source's clients."""
    to_config: str = ""
    """The same for the target."""
    from_zookeeper: str = ""
    """The ZooKeeper of the source: processes share the work by a group of the paper there, instead of a group of Kafka's."""
    to_zookeeper: str = ""
    """The ZooKeeper of the target: with the other one given, too, the offsets of the paper's groups are copied."""
    alone: bool = False
    """This process copies everything, instead of sharing the work with others of its name."""
    groups: bool = True
    """Whether the offsets of consumer groups are copied."""
    merge: bool = False
    """Records are merged into ordinary topics of any Kafka, with offsets of their own."""
    prefix: str = ""
    """What the names of merged topics begin with at the target."""
    exactly_once: bool = False
    """Merged records are written in transactions."""

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise UsageError(f"the name of a mirror has letters, digits, '.', '_' and '-', and is not {self.name!r}")
        if self.limit_bytes < 0:
            raise UsageError(f"limit-bytes is a number of bytes per second, or 0 for no limit, and not {self.limit_bytes}")
        for name in ("refresh_s", "commit_s", "max_held_bytes"):
            if not getattr(self, name) > 0:  # neither is a NaN
                raise UsageError(f"{name.replace('_', '-')} is more than 0, and not {getattr(self, name)}")
        if self.audit:
            audit_settings(self.audit)  # raises if it is no name of a tier
        for name in _MERGING_ONLY:
            if getattr(self, name) and not self.merge:
                raise UsageError(f"{name.replace('_', '-')} is for merging: offsets are kept otherwise; give --merge, too")
        for name in _COPYING_ONLY:
            if getattr(self, name) and self.merge:
                raise UsageError(f"{name.replace('_', '-')} is for mirrors that keep offsets: leave it out, or leave out --merge")
        if self.prefix and not _NAME.fullmatch(self.prefix):
            raise UsageError(f"the names of topics cannot begin with {self.prefix!r}")
        self.pattern  # noqa: B018 -- raises if it is none

    @property
    def pattern(self) -> re.Pattern[str]:
        """The topics, as a pattern."""
        try:
            return re.compile(self.topics)
        except re.error as error:
            raise UsageError(f"{self.topics!r} is no regular expression for topics: {error}") from None

    @property
    def group(self) -> str:
        """The consumer group, at the source, that the progress is committed to."""
        return progress_group(self.name)

    @classmethod
    def of(cls, given: Mapping[str, object], file: Path | None = None) -> Self:
        """From the options of a command, which count more, and a file; what is None is not given."""
        values = _read(file) if file is not None else {}
        values |= {name: value for name, value in given.items() if value is not None}
        known = {field.name for field in fields(cls)}
        arguments: dict[str, Any] = {}
        for name, value in values.items():
            own = _NAMES.get(name, name.replace("-", "_"))
            if own not in known:
                allowed = ", ".join(sorted({*_NAMES, *(key.replace("_", "-") for key in known)} - {"source", "target"}))
                raise UsageError(f"a mirror has no setting {name!r}; it has {allowed}")
            wanted: Any = bool if own in _FLAGS else _NUMBERS.get(own, str)
            if not isinstance(value, wanted) or (isinstance(value, bool) and own not in _FLAGS):
                raise UsageError(f"the setting {name!r} of a mirror cannot be {value!r}")
            arguments[own] = value
        for own, name in (("source", "--from"), ("target", "--to"), ("topics", "--topics")):
            if not arguments.get(own):
                raise UsageError(f"a mirror needs {name}")
        return cls(**arguments)


def _read(file: Path) -> dict[str, object]:
    try:
        return tomllib.loads(file.read_text())
    except OSError as error:
        raise UsageError(f"cannot read {file}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{file} is no TOML: {error}") from None
