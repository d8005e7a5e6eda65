"""The rules of the house that no other tool checks."""

import ast
import gc
import os
import re
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import pytest

from millstream.options.broker import BROKER_OPTIONS, TOPIC_DEFAULTS
from millstream.options.topic import TOPIC_OPTIONS

ROOT = Path(__file__).parent.parent
SOURCES = sorted((ROOT / "src").rglob("*.py"))
PYTHON_FILES = sorted(
    [
        *SOURCES,
        *(ROOT / "tests").rglob("*.py"),
        *(ROOT / "bench").rglob("*.py"),
        *(ROOT / "codegen").rglob("*.py"),
        *(ROOT / "demo").rglob("*.py"),
        *(ROOT / "scripts").rglob("*.py"),
    ]
)
LOG_CONFIG = ROOT / "src/millstream/log/config.py"
MAX_FILE_LINES = 500
MAX_FUNCTION_LINES = 70
MAX_PACKAGE_FILES = 20
MAX_MODULES_AT_READY = 455
MAX_MESSAGES_AT_READY = 4
DOCSTRING = re.compile(r'(?:#[^\n]*\n|\s)*r?"""(?:(?!""").){41}', re.DOTALL)
"""At the top of a file, and more than a few words."""
VAGUE_NAMES = {"utils", "util", "helpers", "helper", "common", "misc", "base", "core", "manager_utils"}
LIBRARY_IMPORTERS = {
    "kazoo": ("src/millstream/coordination/ensemble/kazoo_adapter.py", "src/millstream/coordination/ensemble/kazoo_client.py"),
    "confluent_kafka": (
        "src/millstream/paper/librdkafka.py",
        "src/millstream/cli",
        "src/millstream/registry/schema_log.py",
        "src/millstream/auditor/audit_group.py",
        "src/millstream/mirror/clusters/librdkafka.py",
        "src/millstream/mirror/merging/merged_topics.py",
        "src/millstream/mirror/merging/merger.py",
        "src/millstream/mirror/sharing/group_share.py",
    ),
}
"""Where a library may be named at all, by an import or in the name of a module that is imported later."""
# Assembled, so that this file does not contain what it looks for.
MACHINE_PATHS = re.compile("|".join(["/ro" + "ot/", "/ho" + "me/", "/wo" + "rk/", "/Us" + "ers/"]))
FORMER_NAME = re.compile("pen" + "stock", re.IGNORECASE)
REGISTRY_ADDRESSES = re.compile("|".join([r"https?://\S*py" + "pi", r"https?://files\.python" + "hosted", "repo1\\.mav" + "en"]))


def relative(path: Path) -> str:
    return str(path.relative_to(ROOT))


def tracked_files() -> list[Path]:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode != 0:
        pytest.skip("not a git checkout: " + listed.stderr.strip())
    return [path for name in listed.stdout.split("\0") if name and (path := ROOT / name).is_file()]


@contextmanager
def without_the_garbage_collector() -> Iterator[None]:
    """Its walks through the trees of a thousand files take longer than parsing them."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def functions_of(statements: Iterable[ast.AST]) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """All functions in these statements. Expressions are not looked into, and are most of what a file has."""
    for statement in statements:
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
            yield statement
        for name in ("body", "orelse", "finalbody", "handlers", "cases"):
            inner = getattr(statement, name, None)
            if isinstance(inner, list):
                yield from functions_of(inner)


@cache
def code_outside_of_options() -> str:
    return "\n".join(path.read_text() for path in SOURCES if "options" not in path.parts and path != LOG_CONFIG)


def test_no_file_is_too_long_to_read() -> None:
    lengths = {relative(path): len(path.read_text().splitlines()) for path in PYTHON_FILES}
    assert {path: length for path, length in lengths.items() if length > MAX_FILE_LINES} == {}


def test_no_function_is_too_long_to_read() -> None:
    long_files = [(path, text) for path in PYTHON_FILES if (text := path.read_text()).count("\n") > MAX_FUNCTION_LINES]
    with without_the_garbage_collector():
        lengths = {
            f"{relative(path)}:{function.name}": (function.end_lineno or function.lineno) - function.lineno + 1
            for path, text in long_files
            for function in functions_of(ast.parse(text).body)
        }
    assert len(lengths) > 10_000
    assert {name: length for name, length in lengths.items() if length > MAX_FUNCTION_LINES} == {}


def test_a_package_that_outgrows_twenty_files_has_rooms() -> None:
    sizes = Counter(path.parent for path in SOURCES if path.name != "__init__.py")
    # What codegen writes has a module per API.
    assert {relative(package): size for package, size in sizes.items() if size > MAX_PACKAGE_FILES and package.parent.name != "wire"} == {}


def test_every_file_is_named_after_its_noun() -> None:
    assert [relative(path) for path in PYTHON_FILES if path.stem in VAGUE_NAMES] == []


def test_a_package_file_holds_its_docstring_and_nothing_else() -> None:
    # The root offers the client's public names, lazily; Spark looks for a name in `pyspark_millstream`.
    packages = [path for path in SOURCES if path.name == "__init__.py" and path.parent.name not in {"millstream", "pyspark_millstream"}]
    trees = {relative(path): ast.parse(path.read_text()) for path in packages}
    assert [path for path, tree in trees.items() if not ast.get_docstring(tree) or len(tree.body) > 1] == []


def test_a_module_opens_with_what_it_is() -> None:
    texts = {relative(path): path.read_text() for path in SOURCES if path.name != "__init__.py"}
    assert [path for path, text in texts.items() if not DOCSTRING.match(text)] == []


@pytest.mark.parametrize("library", LIBRARY_IMPORTERS)
def test_a_library_enters_through_one_module(library: str) -> None:
    # Both `import kazoo` and `import_module("kazoo...")`.
    named = re.compile(rf"""^\s*(?:from|import)\s+{library}\b|["']{library}\.""", re.MULTILINE)
    outside = [
        relative(path) for path in SOURCES if named.search(path.read_text()) and not relative(path).startswith(LIBRARY_IMPORTERS[library])
    ]
    assert outside == []


def is_read_from_topics(name: str) -> bool:
    """Whether code reads the field of `LogConfig`, or a property of it does."""
    field = f".{name.replace('.', '_')}"
    return field in code_outside_of_options() or field in LOG_CONFIG.read_text().partition("@property")[2]


def test_every_broker_option_that_can_be_set_is_read_somewhere() -> None:
    code = code_outside_of_options() + LOG_CONFIG.read_text()
    own = {name for name, option in BROKER_OPTIONS.items() if not option.is_fixed and not option.without_effect} - TOPIC_DEFAULTS
    assert sorted(name for name in own if f'"{name}"' not in code) == []


def test_every_topic_option_that_can_be_set_is_read_somewhere() -> None:
    unread = [
        name
        for name, option in TOPIC_OPTIONS.items()
        if not option.is_fixed and not option.is_internal and not option.without_effect and not is_read_from_topics(name)
    ]
    assert unread == []


PARTS_OF_THE_BROKER = {"broker", "cli", "cluster", "coordination", "groups", "log", "transactions"}
"""Clients have options of the same names."""
LISTENERS_FOR_CONTROLLERS = "controller.listener.names"
"""Read to separate them from those for clients, and still without effect: none of them is opened."""


def test_the_options_of_logs_that_people_read_about_exist() -> None:
    known = (ROOT / "docs" / "configuration.md").read_text()
    pages = [page for page in (ROOT / "docs").glob("*.md") if page.name != "architecture.md"]
    named = [(page.name, name) for page in pages for name in re.findall(r"`(log(?:\.[a-z]+){2,})", page.read_text())]
    assert len(named) > 20
    assert [(page, name) for page, name in named if f"`{name}`" not in known] == []


def test_options_without_effect_are_read_nowhere_and_are_not_fixed() -> None:
    """When the part comes that an option is about, the option has to be obeyed: the mark goes, or this fails."""
    code = "\n".join(path.read_text() for path in SOURCES if PARTS_OF_THE_BROKER.intersection(path.relative_to(ROOT).parts))
    brokers = {name for name, option in BROKER_OPTIONS.items() if option.without_effect} - TOPIC_DEFAULTS - {LISTENERS_FOR_CONTROLLERS}
    topics = {name for name, option in TOPIC_OPTIONS.items() if option.without_effect}
    assert sorted(name for name in brokers if f'"{name}"' in code) == []
    assert sorted(filter(is_read_from_topics, topics)) == []
    assert [
        option.name for option in (*BROKER_OPTIONS.values(), *TOPIC_OPTIONS.values()) if option.is_fixed and option.without_effect
    ] == []


@pytest.mark.parametrize("generator", [("scripts/generate_docs.py",), ("-m", "codegen")], ids=["documents", "messages"])
def test_what_is_generated_is_up_to_date(generator: tuple[str, ...]) -> None:
    checked = subprocess.run([sys.executable, *generator, "--check"], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert checked.returncode == 0, checked.stdout + checked.stderr


MODULES_AT_READY = """
import asyncio, sys
from pathlib import Path
from millstream.broker.server import BrokerServer
from millstream.broker.server_options import ServerOptions

async def main():
    async with BrokerServer(ServerOptions(listen_port=0, coordination_port=0, data=(Path(sys.argv[1]),))):
        print(*sys.modules)

asyncio.run(main())
"""


def test_a_broker_that_is_ready_has_loaded_little(tmp_path: Path) -> None:
    """Start-up time and memory are mostly imports: messages, above all, are loaded per API when first asked for."""
    started = subprocess.run(
        [sys.executable, "-c", MODULES_AT_READY, str(tmp_path / "data")], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )
    assert started.returncode == 0, started.stderr
    modules = started.stdout.split()
    heavy = {"aiokafka", "confluent_kafka", "kafka", "kazoo", "pydantic", "pytest", "rich", "typer"}
    assert sorted(heavy.intersection(modules)) == []
    messages = [name for name in modules if name.startswith(("millstream.wire.requests.", "millstream.wire.responses."))]
    assert len(messages) <= MAX_MESSAGES_AT_READY
    assert len(modules) <= MAX_MODULES_AT_READY


def test_every_script_can_be_executed() -> None:
    scripts = [path for path in tracked_files() if path.read_bytes()[:2] == b"#!"]
    assert scripts
    assert [relative(path) for path in scripts if not os.access(path, os.X_OK)] == []


@pytest.mark.parametrize("name", [".ci/run", ".github/workflows/check.yml", ".pre-commit-config.yaml", "CONTRIBUTING.md", "README.md"])
def test_scripts_that_are_named_exist(name: str) -> None:
    named = set(re.findall(r"\bscripts/[a-z_]+(?:\.py)?", (ROOT / name).read_text()))
    assert named
    assert [script for script in named if not os.access(ROOT / script, os.X_OK)] == []


def test_the_hosted_ci_tries_every_python_that_the_matrix_does() -> None:
    listed = re.findall(r"python: \[(.*)\]", (ROOT / ".github/workflows/check.yml").read_text())
    versions = re.search(r"for version in (.*); do", (ROOT / "scripts/matrix").read_text())
    assert versions is not None
    assert listed == [", ".join(f'"{version}"' for version in versions[1].split())] * 2


def test_nothing_names_a_directory_of_one_machine() -> None:
    assert matching_lines(MACHINE_PATHS) == []


def test_nothing_records_where_packages_were_downloaded_from() -> None:
    assert matching_lines(REGISTRY_ADDRESSES) == []


def test_nothing_carries_the_name_that_belongs_to_another_project() -> None:
    allowed = ("CHANGELOG.md", "docs/adr/0023-the-name.md")
    assert [line for line in matching_lines(FORMER_NAME) if not line.startswith(allowed)] == []
    assert [relative(path) for path in tracked_files() if FORMER_NAME.search(relative(path))] == []


def test_what_the_documents_install_is_this_project() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    documents = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *SOURCES]
    asked = [
        (relative(path), name, extra)
        for path in documents
        for name, extras in re.findall(r"""pip install ['"]?([\w.-]*)\[([\w,]+)\]""", path.read_text())
        for extra in extras.split(",")
    ]
    assert asked
    assert [line for line in asked if line[1] not in {".", project["name"]} or line[2] not in project["optional-dependencies"]] == []


def matching_lines(pattern: re.Pattern[str]) -> list[str]:
    found = []
    for path in tracked_files():
        try:
            text = path.read_text()
        except UnicodeDecodeError:
            continue
        lines = text.splitlines() if pattern.search(text) else []
        found += [f"{relative(path)}:{number}: {line.strip()}" for number, line in enumerate(lines, 1) if pattern.search(line)]
    return found


def test_links_between_documents_lead_somewhere() -> None:
    broken = [
        f"{relative(document)}: {target}"
        for document in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
        for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", document.read_text())
        if "://" not in target and not (document.parent / target).exists()
    ]
    assert broken == []


def test_every_pinned_version_is_exact_and_without_an_address() -> None:
    lines = [line for line in (ROOT / "constraints.txt").read_text().splitlines() if not line.startswith("#")]
    assert lines
    assert [line for line in lines if not re.fullmatch(r"[A-Za-z0-9._-]+==[A-Za-z0-9.]+", line)] == []
