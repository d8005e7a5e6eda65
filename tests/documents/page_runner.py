"""Runs the blocks of a page one after the other, as a user would type them in one directory.

`python` runs in one namespace per page, `sh` and `console` in bash, `sql` in Spark. `text` is what the block before it printed; in
`console` the lines after a `$ command` are what it prints. In both `...` stands for anything. Other languages are files.

What differs from what is written: brokers have free ports, so addresses are put in before and taken out again after; `/data` is a folder of
the page; and a `millstream serve` that names no ports gets free ones (see `bin_directory`).
"""

import contextlib
import gc
import io
import os
import re
import signal
import subprocess
import sys
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tests.documents.page import ROOT, Block, Page
from tests.waiting import wait_until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TIMEOUT_S: Final = 120
COMMANDS: Final = Path(sys.executable).parent
_PORT_OF_A_READY_LINE: Final = re.compile(r":\d+")
_LOG_LINE: Final = re.compile(r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} [A-Z]+ .*\n", re.MULTILINE)


class PageRunner:
    """One page at work. `addresses`: what the page writes, and what that is in this run. `spark` starts Spark, if it is asked for."""

    def __init__(self, page: Page, directory: Path, addresses: Mapping[str, str], spark: "Callable[[], SparkSession]") -> None:
        self._page = page
        self._directory = directory
        self._put_in = {**addresses, "/data/": f"{directory}/data/"}
        self._take_out = {actual: shown for shown, actual in self._put_in.items()}
        self._start_spark = spark
        self._session: SparkSession | None = None
        self._variables: dict[str, Any] = {"__name__": "__main__"}
        self._printed = ""
        path = os.pathsep.join([str(bin_directory(directory)), str(COMMANDS), os.environ["PATH"]])
        self._environment = {**os.environ, "PATH": path, "COLUMNS": "200"}
        (directory / "examples").symlink_to(ROOT / "examples")

    def run(self) -> None:
        """All blocks that are not marked."""
        try:
            for block in self._page.blocks:
                if not block.not_run:
                    self.run_block(block)
        finally:
            self._forget()

    def run_block(self, block: Block) -> None:
        """One block; an AssertionError says what it printed instead of what is written."""
        text = _replaced(block.text, self._put_in)
        if block.file:
            path = self._directory / block.file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        elif block.language == "text":
            expect(block, block.text, self._printed)
        elif block.language == "python":
            self._python(block, text)
        elif block.language == "sh":
            self._printed = self._shown(self._bash(block, f"set -euo pipefail\n{text}", text, must_succeed=True))
        elif block.language == "console":
            self._console(block)
        elif block.language == "sql":
            self._sql(text)
        else:
            raise AssertionError(f"{block.place}: a block of {block.language or 'no language'} is a file or not run; say so in a comment")

    def _forget(self) -> None:
        """Let go of what the page made, here and not in the middle of another test: who types snippets does not close all of it."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self._variables.clear()
            gc.collect()
        if self._session is not None:
            # It is the session of all pages, and of this one when it is tried again.
            for table in self._session.catalog.listTables():
                if table.isTemporary:
                    self._session.catalog.dropTempView(table.name)

    def _spark(self) -> "SparkSession":
        self._session = self._start_spark()
        return self._session

    def _python(self, block: Block, code: str) -> None:
        if block.until:
            self._printed = self._shown(self._process(block, [sys.executable, "-u", "-c", code])[0])
            return
        if block.needs_spark:
            self._spark()
        output = io.StringIO()
        with contextlib.redirect_stdout(output), warnings.catch_warnings():
            warnings.simplefilter("default")
            # As many lines before it as there are on the page, so that a traceback names the line there.
            exec(compile("\n" * block.line + code, self._page.path, "exec"), self._variables)
        self._printed = self._shown(output.getvalue())

    def _sql(self, text: str) -> None:
        printed = []
        for statement in text.split(";\n"):
            if statement.strip():
                rows = self._spark().sql(statement.strip().removesuffix(";"))
                printed += [" ".join(str(value) for value in row) for row in rows.collect()]
        self._printed = self._shown("".join(f"{line}\n" for line in printed))

    def _console(self, block: Block) -> None:
        for command, expected in commands_of(block):
            output = self._bash(block, _replaced(command, self._put_in), command, must_succeed=not expected)
            expect(block, expected, self._shown(output))

    def _bash(self, block: Block, script: str, shown: str, *, must_succeed: bool) -> str:
        output, code = self._process(block, ["bash", "-c", script])
        if must_succeed and not block.until and code != 0:
            raise AssertionError(f"{block.place}: exit code {code}\n{shown}\n{output}")
        return output

    def _process(self, block: Block, command: list[str]) -> tuple[str, int]:
        """Both outputs of a process, and its exit code. What it leaves in the background ends with it."""
        file = self._directory / "output.txt"
        with file.open("wb") as output:
            process = subprocess.Popen(
                command,
                cwd=self._directory,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            try:
                if block.until:
                    wait_until(lambda: block.until in file.read_text(errors="replace") or process.poll() is not None, block.place)
                    with contextlib.suppress(ProcessLookupError):
                        os.killpg(process.pid, signal.SIGINT)
                process.wait(TIMEOUT_S)
            finally:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        text = file.read_text(errors="replace")
        if block.until and block.until not in text:
            raise AssertionError(f"{block.place}: ended with {process.returncode} and did not write {block.until!r}:\n{text}")
        return text, process.returncode

    def _shown(self, output: str) -> str:
        return _replaced(output, self._take_out)


def commands_of(block: Block) -> list[tuple[str, str]]:
    """The commands of a console, each with what it prints. A line that ends with a backslash goes on."""
    commands: list[tuple[str, str]] = []
    is_continued = False
    for line in block.text.splitlines(keepends=True):
        if line.startswith("$ "):
            commands.append((line.removeprefix("$ "), ""))
        elif not commands:
            raise AssertionError(f"{block.place}: a console begins with `$ `")
        elif is_continued:
            commands[-1] = (commands[-1][0] + line, "")
        else:
            commands[-1] = (commands[-1][0], commands[-1][1] + line)
        is_continued = line.endswith("\\\n") and not commands[-1][1]
    return commands


def expect(block: Block, expected: str, actual: str) -> None:
    """What is written is what was printed, but for log lines and the width of gaps: addresses are of different lengths."""
    pattern = ".*".join(re.escape(part) for part in _comparable(expected).split("..."))
    if re.fullmatch(pattern, _comparable(actual), re.DOTALL) is None:
        raise AssertionError(f"{block.place}: printed is\n{actual}\nand the page says\n{expected}")


def _comparable(text: str) -> str:
    said = _LOG_LINE.sub("", text).splitlines()
    lines = (_PORT_OF_A_READY_LINE.sub(":", line) if line.startswith("ready:") else line for line in said)
    return "\n".join(re.sub(r" {2,}", " ", line.rstrip()) for line in lines).strip("\n")


def _replaced(text: str, replacements: Mapping[str, str]) -> str:
    if not replacements:
        return text
    # The longest first: `http://127.0.0.1:8081` before `127.0.0.1:8081`; in one go, so that nothing is replaced twice.
    names = sorted(replacements, key=len, reverse=True)
    return re.sub("|".join(map(re.escape, names)), lambda found: replacements[found[0]], text)


def bin_directory(directory: Path) -> Path:
    """A folder for the PATH, with a `millstream serve` that does not take the usual ports."""
    folder = directory / "bin"
    folder.mkdir()
    free = " ".join(f"--{name} 127.0.0.1:0" for name in ("listen", "coordination", "registry", "metrics"))
    serve = f'shift; exec "{COMMANDS}/millstream" serve {free} "$@"'
    wrapper = folder / "millstream"
    wrapper.write_text(f'#!/usr/bin/env bash\nif [[ "${{1:-}}" == serve ]]; then {serve}; fi\nexec "{COMMANDS}/millstream" "$@"\n')
    wrapper.chmod(0o755)
    return folder
