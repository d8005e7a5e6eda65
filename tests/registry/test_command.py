"""`millstream registry`: each command against a registry, what it prints and how it fails."""

import json
from pathlib import Path

import pytest

from tests.registry.registry_process import RegistryProcess
from tests.unit.cli.conftest import Millstream, millstream

__all__ = ["millstream"]

OLD = {"type": "record", "name": "User", "fields": [{"name": "name", "type": "string"}]}
NEW = {"type": "record", "name": "User", "fields": [{"name": "name", "type": "string"}, {"name": "age", "type": "int"}]}


@pytest.fixture(autouse=True)
def _address(registry: RegistryProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MILLSTREAM_REGISTRY", registry.url)


@pytest.fixture
def old(tmp_path: Path) -> str:
    path = tmp_path / "old.avsc"
    path.write_text(json.dumps(OLD))
    return str(path)


@pytest.fixture
def new(tmp_path: Path) -> str:
    path = tmp_path / "new.avsc"
    path.write_text(json.dumps(NEW))
    return str(path)


def test_a_schema_is_registered_listed_and_shown(millstream: Millstream, subject: str, old: str) -> None:
    registered = millstream("registry", "register", subject, old)
    assert registered.code == 0, registered.err
    number = registered.out.split()[-1]
    assert registered.out == f"{subject} version 1 id {number}\n"
    assert millstream("registry", "register", subject, old).out == registered.out
    listed = millstream("registry", "subjects", "--prefix", subject, "--output", "json").documents[0]
    assert listed == [{"subject": subject, "version": 1, "id": int(number)}]
    assert subject in millstream("registry", "subjects").out
    shown = millstream("registry", "get", subject).out
    assert shown.startswith(f"{subject} version 1  id {number}  guid ")
    assert '\n      "name": "name",\n' in shown
    document = millstream("registry", "get", "--id", number, "--output", "json").documents[0]
    assert (json.loads(document["schema"]), document["subject"]) == (OLD, subject)
    assert millstream("registry", "get", "--guid", document["guid"]).code == 0


def test_a_schema_comes_from_standard_input_and_with_references(millstream: Millstream, subject: str, old: str) -> None:
    millstream("registry", "register", f"{subject}-u", old)
    text = json.dumps({"type": "array", "items": "User"}).encode()
    outcome = millstream("registry", "register", subject, "-", "-r", f"User={subject}-u:1", stdin=text)
    assert outcome.code == 0, outcome.err
    assert f"refers to User: {subject}-u version 1" in millstream("registry", "get", subject).out


def test_check_says_which_field_breaks_what(millstream: Millstream, subject: str, old: str, new: str) -> None:
    millstream("registry", "register", subject, old)
    assert millstream("registry", "check", subject, old).out == f"compatible: {subject} takes it (level BACKWARD)\n"
    refused = millstream("registry", "check", subject, new)
    assert refused.code == 1
    assert "READER_FIELD_MISSING_DEFAULT_VALUE" in refused.out
    assert "(User.age)" in refused.out
    assert "(with version 1)" in refused.out
    assert millstream("registry", "check", subject, new, "--output", "json").documents[0]["is_compatible"] is False
    assert millstream("registry", "register", subject, new).code == 1


def test_levels_are_shown_and_set(millstream: Millstream, subject: str) -> None:
    assert millstream("registry", "config").out == "global  level BACKWARD  mode READWRITE\n"
    assert millstream("registry", "config", subject, "--set", "full").out == f"{subject}  level FULL  mode READWRITE\n"
    shown = millstream("registry", "config", subject, "--output", "json").documents[0]
    assert shown == {"subject": subject, "level": "FULL", "mode": "READWRITE"}
    assert "level BACKWARD" in millstream("registry", "config", subject, "--unset").out
    assert "Invalid compatibility level" in millstream("registry", "config", subject, "--set", "sideways").err


def test_versions_and_subjects_are_deleted(millstream: Millstream, subject: str, old: str) -> None:
    millstream("registry", "register", subject, old)
    assert millstream("registry", "delete", subject, "--version", "1").out == f"deleted {subject} version 1\n"
    assert millstream("registry", "delete", subject, "--permanent").out == f"deleted {subject} version 1 for good\n"
    gone = millstream("registry", "delete", subject)
    assert (gone.code, gone.err) == (1, f"millstream: Subject '{subject}' not found.\n")


@pytest.mark.parametrize("place", ["127.0.0.1:1", "127.0.0.1:port", ""])
def test_secrets_of_an_address_are_not_shown(millstream: Millstream, monkeypatch: pytest.MonkeyPatch, place: str) -> None:
    url = f"http://ann:se/c#r?e,t%25@{place}"
    monkeypatch.setenv("MILLSTREAM_REGISTRY", url)
    for arguments in (["subjects"], ["subjects", "--url", url], ["subjects", "--help"]):
        outcome = millstream("registry", *arguments)
        reported = outcome.out + outcome.err
        assert not [part for part in ("ann", "se/c", "c#r", "r?e", "t%") if part in reported], reported
        assert "--help" in arguments or place in ("127.0.0.1:port", "") or place in reported


@pytest.mark.parametrize(
    ("arguments", "code", "what"),
    [
        (["get"], 2, "--guid"),
        (["get", "s", "--id", "1"], 2, "--guid"),
        (["get", "no-such-subject"], 1, "not found"),
        (["register", "s", "/nowhere/x.avsc"], 2, "/nowhere/x.avsc"),
        (["register", "s", "-"], 2, "standard input is not JSON"),
        (["register", "s", "-", "-r", "nonsense"], 2, "NAME=SUBJECT:VERSION"),
        (["config", "--set", "full", "--unset"], 2, "contradict"),
        (["subjects", "--url", "http://127.0.0.1:1"], 1, "No schema registry answers: http://127.0.0.1:1 (Connection refused)."),
        (["subjects", "--url", "ftp://x"], 2, "http://HOST:PORT"),
        (["serve", "--listen", "nowhere"], 2, "HOST:PORT"),
        (["serve", "--log-level", "loud"], 2, "--log-level"),
    ],
)
def test_what_is_wrong_is_reported_in_one_line(millstream: Millstream, arguments: list[str], code: int, what: str) -> None:
    stdin = b'"int"' if "nonsense" in arguments else b"{"
    outcome = millstream("registry", *arguments, stdin=stdin)
    assert (outcome.code, outcome.err.count("\n")) == (code, 1), outcome.err
    assert what in outcome.err
