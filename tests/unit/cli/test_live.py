import pytest

from millstream.cli.live import watch
from millstream.errors import CommandFailed


def test_pictures_follow_each_other_in_a_pipe(capsys: pytest.CaptureFixture[str]) -> None:
    pictures = iter(["one", "two", "three"])
    watch(lambda: next(pictures), every_s=0, count=2)
    assert capsys.readouterr().out == "one\n\ntwo\n"


def test_interruption_is_how_it_ends(capsys: pytest.CaptureFixture[str]) -> None:
    def picture() -> str:
        raise KeyboardInterrupt

    watch(picture, every_s=0)
    assert capsys.readouterr() == ("", "")


def test_broker_that_goes_away_is_waited_for(capsys: pytest.CaptureFixture[str]) -> None:
    rounds = iter([None, CommandFailed("no broker answers"), None])

    def picture() -> str:
        error = next(rounds)
        if error is not None:
            raise error
        return "well"

    watch(picture, every_s=0, count=3)
    assert capsys.readouterr().out.split("\n\n") == ["well", "no broker answers", "well\n"]


def test_broker_that_never_was_there_is_an_error() -> None:
    def picture() -> str:
        raise CommandFailed("no broker answers")

    with pytest.raises(CommandFailed):
        watch(picture, every_s=0, count=3)
