from pathlib import Path

import pytest

from millstream.cli.properties import parse_assignments, parse_properties, read_properties
from millstream.errors import UsageError


def test_the_last_assignment_of_a_name_wins() -> None:
    assert parse_assignments(["a=1", "b= x=y ", "a=2"]) == {"a": "2", "b": "x=y"}


@pytest.mark.parametrize("assignment", ["name", "=value", ""])
def test_an_assignment_without_a_name_or_value_is_refused(assignment: str) -> None:
    with pytest.raises(UsageError, match="NAME=VALUE"):
        parse_assignments([assignment])


def test_a_file_is_read_as_java_reads_properties() -> None:
    text = "# comment\n! comment\n\nlog.retention.hours=24\n  num.partitions : 3\nlog.dirs=/a,\\\n   /b\npath=c\\:\\\\d\nempty=\n"
    assert parse_properties(text, name="f") == {
        "log.retention.hours": "24",
        "num.partitions": "3",
        "log.dirs": "/a,/b",
        "path": "c:\\d",
        "empty": "",
    }


def test_a_name_given_twice_is_refused_with_its_line() -> None:
    with pytest.raises(UsageError, match="line 2"):
        parse_properties("a=1\na=2\n", name="server.properties")


@pytest.mark.parametrize("line", ["=hunter2", ": hunter2"])
def test_a_malformed_line_is_named_by_its_number_and_not_shown(line: str) -> None:
    with pytest.raises(UsageError, match=r"client\.properties, line 2: expected name=value, found no name") as raised:
        parse_properties(f"a=1\n{line}\n", name="client.properties")
    assert "hunter2" not in str(raised.value)


def test_of_a_malformed_assignment_only_the_beginning_of_its_name_is_shown() -> None:
    with pytest.raises(UsageError, match=r"^-X sasl\.password\.\.\.: expected NAME=VALUE\.$"):
        parse_assignments(["sasl.password: hunter2"])
    with pytest.raises(UsageError, match=r"^-X retention\.ms: expected NAME=VALUE\.$"):
        parse_assignments(["retention.ms"])


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"missing\.properties"):
        read_properties(tmp_path / "missing.properties")


def test_a_file_that_is_not_text_is_named(tmp_path: Path) -> None:
    path = tmp_path / "binary.properties"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UsageError, match=r"binary\.properties"):
        read_properties(path)
