from pathlib import Path

import pytest

from millstream.errors import UsageError
from millstream.mirror.settings import MirrorSettings

GIVEN = {"from": "a:1", "to": "b:2", "topics": "orders|clicks.*"}


def test_the_command_line_counts_more_than_the_file(tmp_path: Path) -> None:
    file = tmp_path / "mirror.toml"
    file.write_text('from = "x:1"\nto = "y:1"\ntopics = "all"\nlimit-bytes = 500\nname = "east"\nrefresh-s = 1\n')
    settings = MirrorSettings.of({"from": "a:1", "to": None, "limit-bytes": None}, file)
    assert settings == MirrorSettings("a:1", "y:1", "all", name="east", limit_bytes=500, refresh_s=1)
    assert settings.group == "millstream-mirror-east"


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"to": ""}, "needs --to"),
        ({"topics": "("}, "no regular expression"),
        ({"limit-bytes": -1}, "bytes per second"),
        ({"limit-bytes": "fast"}, "'limit-bytes' of a mirror cannot be 'fast'"),
        ({"limit-bytes": True}, "cannot be True"),
        ({"refresh-s": float("nan")}, "refresh-s is more than 0"),
        ({"commit-s": 0}, "commit-s is more than 0"),
        ({"max-held-bytes": 0}, "max-held-bytes is more than 0"),
        ({"name": "a b"}, "letters, digits"),
        ({"colour": "red"}, "no setting 'colour'; it has alone, audit, commit-s, exactly-once, from, "),
        ({"prefix": "live."}, "prefix is for merging"),
        ({"merge": True, "prefix": "a b"}, "cannot begin with 'a b'"),
        ({"merge": True, "limit-bytes": 1}, "limit-bytes is for mirrors that keep offsets"),
        ({"merge": True, "audit": "offline"}, "audit is for mirrors that keep offsets"),
        ({"alone": "yes"}, "'alone' of a mirror cannot be 'yes'"),
    ],
)
def test_what_makes_no_sense_is_said_in_a_sentence(changes: dict[str, object], reason: str) -> None:
    with pytest.raises(UsageError, match=reason):
        MirrorSettings.of(GIVEN | changes)


@pytest.mark.parametrize("content", [b"from = ", b"\xff"])
def test_a_file_that_is_no_toml_is_refused(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "mirror.toml"
    file.write_bytes(content)
    with pytest.raises(UsageError, match="is no TOML"):
        MirrorSettings.of({}, file)
    with pytest.raises(UsageError, match="cannot read"):
        MirrorSettings.of({}, tmp_path / "missing.toml")
