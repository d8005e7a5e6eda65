import errno
import shlex
import subprocess
import sys
from importlib.metadata import version

import pytest

from millstream.cli.app import COMMANDS as COMMANDS_BUT_SERVE
from millstream.cli.main import run_command
from millstream.errors import CommandFailed, MalformedFrame, MillstreamError, StartupError, UsageError
from tests.unit.cli.conftest import Millstream

COMMANDS = ["serve", *COMMANDS_BUT_SERVE]


def test_help_lists_every_command(millstream: Millstream) -> None:
    outcome = millstream("--help")
    assert outcome.code == 0
    assert all(command in outcome.out for command in COMMANDS)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_explains_itself(millstream: Millstream, command: str) -> None:
    outcome = millstream(command, "--help")
    assert outcome.code == 0
    assert f"millstream {command}" in outcome.out
    assert "--help" in outcome.out


def test_a_mistyped_command_is_answered_with_the_one_that_was_meant(millstream: Millstream) -> None:
    outcome = millstream("topc")
    assert outcome.code == 2
    assert "topic" in outcome.err


@pytest.mark.parametrize("flag", ["-b", "--brokers=127.0.0.1:9092", "-X"])
def test_a_flag_before_its_command_is_told_where_it_belongs(millstream: Millstream, flag: str) -> None:
    outcome = millstream(flag, "127.0.0.1:9092", "topic", "list")
    assert (outcome.code, outcome.err.count("\n")) == (2, 1)
    assert f"{flag.partition('=')[0]} comes after the command, as in `millstream topic list -b HOST:PORT`." in outcome.err


@pytest.mark.parametrize("flags", [["--version"], ["topic", "--help"]])
def test_the_version_is_printed_at_once_and_a_command_loads_no_other(flags: list[str]) -> None:
    program = f"""
import sys
before = set(sys.modules)
from millstream.cli.main import main
sys.argv = ["millstream", *{flags!r}]
try:
    main()
except SystemExit:
    pass
unwanted = ("confluent_kafka", "millstream.cli.mirror", "millstream.cli.serve", "millstream.client.cluster", "re2", "tomllib")
loaded = [name for name in unwanted if name in sys.modules and name not in before]
loaded += [name for name in ("typer", "rich") if name in sys.modules and {flags!r} == ["--version"]]
sys.exit(f"loaded {{loaded}}" if loaded else 0)
"""
    finished = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert finished.returncode == 0, finished.stderr
    assert finished.stdout.strip() == version("millstream") or flags != ["--version"]


def test_starting_a_broker_loads_no_client_and_no_decoration() -> None:
    unwanted = ("typer", "rich", "confluent_kafka", "kio", "kazoo", "click")
    program = f"""
import sys
from millstream.cli.main import main
sys.argv = ["millstream", "serve", "--help"]
try:
    main()
except SystemExit:
    pass
loaded = [name for name in {unwanted!r} if name in sys.modules]
sys.exit(f"loaded {{loaded}}" if loaded else 0)
"""
    finished = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert finished.returncode == 0, finished.stderr


@pytest.mark.parametrize(
    ("error", "code"), [(UsageError("x"), 2), (StartupError("x"), 1), (CommandFailed("x"), 1), (MalformedFrame("x"), 1)]
)
def test_an_error_becomes_one_line_on_stderr_and_an_exit_code(
    error: MillstreamError, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    def command() -> None:
        raise error

    assert run_command(command) == code
    assert capsys.readouterr() == ("", "millstream: x\n")


def test_a_mistake_of_our_own_keeps_its_traceback() -> None:
    def command() -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        run_command(command)


def test_an_interrupted_command_ends_as_shells_expect() -> None:
    def command() -> None:
        raise KeyboardInterrupt

    assert run_command(command) == 130


def test_a_question_at_the_end_of_a_sentence_needs_no_full_stop(capsys: pytest.CaptureFixture[str]) -> None:
    def command() -> None:
        raise CommandFailed("it was not altered: did you mean retention.ms?.")

    assert run_command(command) == 1
    assert capsys.readouterr().err == "millstream: it was not altered: did you mean retention.ms?\n"


@pytest.mark.parametrize(
    ("output", "code", "complaint"),
    [(">/dev/full", 1, "millstream: Not everything could be written: No space left on device.\n"), (">&-", 0, "")],
    ids=["a full disk", "none"],
)
def test_an_output_that_takes_nothing_is_one_sentence_at_most(output: str, code: int, complaint: str) -> None:
    command = f"{shlex.quote(sys.executable)} -m millstream.cli.main --version {output}"
    done = subprocess.run(command, shell=True, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (code, "", complaint)


def test_brokers_that_are_no_addresses_are_not_asked(millstream: Millstream) -> None:
    done = millstream("topic", "list", "-b", "127.0.0.1:notaport")
    assert (done.code, done.err) == (
        2,
        "millstream: '127.0.0.1:notaport' is no address: give HOST:PORT with a port from 1 to 65535, for example localhost:9092\n",
    )


def test_a_file_that_may_not_be_used_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    def command() -> None:
        raise PermissionError(errno.EACCES, "Permission denied", "/var/lib/millstream")

    assert run_command(command) == 1
    said = "millstream: /var/lib/millstream: Permission denied. Run this as a user who may use it, or name another place.\n"
    assert capsys.readouterr().err == said
