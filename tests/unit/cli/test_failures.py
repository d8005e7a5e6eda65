import pytest

from millstream.cli.failures import run_command
from millstream.errors import CommandFailed, MalformedFrame, MillstreamError, StartupError, UsageError


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
