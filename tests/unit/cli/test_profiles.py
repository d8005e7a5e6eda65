from pathlib import Path

import pytest

from millstream.cli.profiles import FILE_VARIABLE, NAME_VARIABLE, Profile, profiles_file, read_profile, take_profile
from millstream.errors import UsageError
from tests.unit.cli.conftest import Millstream

TEXT = """
[local]
brokers = "127.0.0.1:1"
registry = "http://127.0.0.1:8081"

[secured]
brokers = "127.0.0.1:2"

[secured.options]
"security.protocol" = "SASL_PLAINTEXT"
"sasl.mechanism" = "PLAIN"
"sasl.username" = "alice"
"enable.ssl.certificate.verification" = true
"""


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "profiles.toml"
    path.write_text(TEXT)
    monkeypatch.setenv(FILE_VARIABLE, str(path))
    for name in (NAME_VARIABLE, "MILLSTREAM_BROKERS"):
        monkeypatch.delenv(name, raising=False)
    return path


def test_a_profile_has_addresses_and_options(file: Path) -> None:
    assert read_profile(file, "local") == Profile({"brokers": "127.0.0.1:1", "registry": "http://127.0.0.1:8081"}, [])
    assert read_profile(file, "secured").options == [
        "security.protocol=SASL_PLAINTEXT",
        "sasl.mechanism=PLAIN",
        "sasl.username=alice",
        "enable.ssl.certificate.verification=true",
    ]


@pytest.mark.parametrize(
    "arguments",
    [["--profile", "local", "topic", "list"], ["topic", "--profile=local", "list"], ["topic", "list", "--profile", "local"]],
)
def test_the_flag_may_stand_anywhere(file: Path, arguments: list[str]) -> None:
    profile, rest = take_profile(arguments, {FILE_VARIABLE: str(file)})
    assert profile is not None
    assert rest == ["topic", "list"]


def test_what_follows_two_dashes_is_no_flag(file: Path) -> None:
    assert take_profile(["produce", "t", "--", "--profile", "x"], {}) == (None, ["produce", "t", "--", "--profile", "x"])


def test_the_file_is_in_the_directory_for_configuration() -> None:
    assert profiles_file({"XDG_CONFIG_HOME": "/c"}) == Path("/c/millstream/profiles.toml")
    assert profiles_file({}) == Path.home() / ".config/millstream/profiles.toml"
    assert profiles_file({FILE_VARIABLE: "/p.toml", "XDG_CONFIG_HOME": "/c"}) == Path("/p.toml")


@pytest.mark.parametrize(
    ("arguments", "environment", "asked"),
    [
        (["--profile", "local"], {}, "127.0.0.1:1"),
        ([], {NAME_VARIABLE: "local"}, "127.0.0.1:1"),
        (["--profile", "local"], {"MILLSTREAM_BROKERS": "127.0.0.1:3"}, "127.0.0.1:1"),
        ([], {NAME_VARIABLE: "local", "MILLSTREAM_BROKERS": "127.0.0.1:3"}, "127.0.0.1:3"),
        (["--profile", "local", "-b", "127.0.0.1:4"], {"MILLSTREAM_BROKERS": "127.0.0.1:3"}, "127.0.0.1:4"),
    ],
)
def test_what_is_nearer_to_the_command_goes_first(
    millstream: Millstream, file: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], environment: dict[str, str], asked: str
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    outcome = millstream("topic", "list", *arguments)
    assert outcome.code == 1
    assert f"No broker answers at {asked} " in outcome.err


def test_options_of_a_profile_reach_the_client_and_flags_win_over_them(millstream: Millstream, file: Path) -> None:
    file.write_text('[odd]\nbrokers = "127.0.0.1:1"\n[odd.options]\n"no.such.option" = 1\n')
    assert "no.such.option" in millstream("topic", "list", "--profile", "odd").err
    file.write_text('[odd]\nbrokers = "127.0.0.1:1"\n[odd.options]\n"security.protocol" = "nonsense"\n')
    assert "nonsense" in millstream("topic", "list", "--profile", "odd").err
    assert "No broker" in millstream("topic", "list", "--profile", "odd", "-X", "security.protocol=PLAINTEXT").err


@pytest.mark.parametrize("secret", ['"sasl.password" = "x"', '"ssl.key.password" = "x"', '"sasl.jaas.config" = "x"'])
def test_a_file_with_a_password_must_not_be_readable_by_others(millstream: Millstream, file: Path, secret: str) -> None:
    file.write_text(f'[a]\nbrokers = "127.0.0.1:1"\n[b.options]\n{secret}\n')
    file.chmod(0o640)
    outcome = millstream("topic", "list", "--profile", "a")
    assert outcome.code == 2
    assert f"chmod 600 {file}" in outcome.err
    file.chmod(0o600)
    assert millstream("topic", "list", "--profile", "a").code == 1


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("", "There is no profile 'local'"),
        ("[locale]", "there are: locale"),
        ("[local", "cannot be read"),
        ("[local]\nbroker = 'x'", "'broker' is unknown; a profile has brokers"),
        ("[local]\nbrokers = 1", "brokers must be text"),
        ("[local]\noptions = 1", "options must be a table"),
        ("[local.options]\na.b = 'x'", "the names in quotes"),
    ],
)
def test_what_is_wrong_with_a_file_is_said(millstream: Millstream, file: Path, text: str, hint: str) -> None:
    file.write_text(text)
    outcome = millstream("topic", "list", "--profile", "local")
    assert (outcome.code, outcome.err.count("\n")) == (2, 1)
    assert hint in outcome.err
    assert str(file) in outcome.err


def test_a_file_that_is_missing_is_said_and_a_flag_without_a_name(tmp_path: Path) -> None:
    with pytest.raises(
        UsageError, match=r"no\.toml: No such file or directory; write it there, .* or name another file with \$MILLSTREAM_PROFILES\."
    ):
        read_profile(tmp_path / "no.toml", "local")
    with pytest.raises(UsageError, match="needs the name"):
        take_profile(["topic", "--profile"], {})
