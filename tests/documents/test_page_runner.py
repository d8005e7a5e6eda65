"""The runner itself: what it takes for a block, a command and an output, and that it notices what is not as written."""

from pathlib import Path

import pytest

from tests.documents.page import ROOT, Block, Page
from tests.documents.page_runner import PageRunner, commands_of, expect
from tests.waiting import is_gone, wait_until

PAGE = """
<!-- brokers: live:9092, offline:9092 -->
<!-- not run: a drawing -->
```text
->
```
<!-- file: here.json -->

```json
{}
```
1. A list

   ```sh
   echo one
   ```
"""


def block(language: str, text: str, **comment: str) -> Block:
    return Block("page.md", 1, language, text, **comment)


@pytest.fixture
def runner(tmp_path: Path) -> PageRunner:
    def no_spark() -> None:
        raise AssertionError("nothing here needs Spark")

    return PageRunner(Page(ROOT / "README.md"), tmp_path, {"127.0.0.1:9092": "127.0.0.1:40123"}, no_spark)  # type: ignore[arg-type]


def test_comment_belongs_to_the_fence_on_the_next_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "read_text", lambda _: PAGE)
    page = Page(ROOT / "README.md")
    assert page.brokers == ("live:9092", "offline:9092")
    assert [(found.language, found.not_run, found.file, found.text) for found in page.blocks] == [
        ("text", "a drawing", "", "->\n"),
        ("json", "", "", "{}\n"),
        ("sh", "", "", "echo one\n"),
    ]


def test_console_is_commands_and_what_they_print() -> None:
    assert commands_of(block("console", "$ a \\\n    b\none\ntwo\n$ c\n")) == [("a \\\n    b\n", "one\ntwo\n"), ("c\n", "")]
    with pytest.raises(AssertionError, match="begins with"):
        commands_of(block("console", "one\n"))


@pytest.mark.parametrize(
    ("expected", "actual"),
    [("a  b\n", "a    b\n"), ("id ...\n", "id 7\n"), ("ready: broker h:1\n", "2026-11-16 13:00:00,001 INFO x: y\nready: broker h:2\n")],
)
def test_gaps_ports_log_lines_and_dots_may_differ(expected: str, actual: str) -> None:
    expect(block("text", expected), expected, actual)


@pytest.mark.parametrize(("expected", "actual"), [("a\n", "b\n"), ("a\n", "a\nb\n"), ("", "a\n"), ("id ... end\n", "id 7\n")])
def test_anything_else_is_named_with_its_place(expected: str, actual: str) -> None:
    with pytest.raises(AssertionError, match=r"page\.md:1"):
        expect(block("text", expected), expected, actual)


def test_addresses_are_put_in_and_taken_out(runner: PageRunner) -> None:
    runner.run_block(block("console", "$ echo 127.0.0.1:9092 | sed 's/.*:40123/it was put in/'\nit was put in\n"))
    runner.run_block(block("sh", "echo 127.0.0.1:9092\n"))
    runner.run_block(block("text", "127.0.0.1:9092\n"))


def test_command_that_fails_is_a_failure_and_what_it_left_behind_ends(runner: PageRunner, tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="exit code 3"):
        runner.run_block(block("sh", "sleep 1000 & echo $! > pid\nexit 3\n"))
    wait_until(lambda: is_gone(int((tmp_path / "pid").read_text())), "the end of what was left behind")


def test_what_runs_for_ever_is_interrupted_when_it_has_said_it(runner: PageRunner) -> None:
    runner.run_block(block("python", "import time\nprint('ready')\ntime.sleep(1000)\n", until="ready"))
    with pytest.raises(AssertionError, match="did not write 'ready'"):
        runner.run_block(block("sh", "echo no\n", until="ready"))


def test_block_that_nothing_can_be_done_with_is_refused(runner: PageRunner) -> None:
    with pytest.raises(AssertionError, match="is a file or not run"):
        runner.run_block(block("toml", "a = 1\n"))
