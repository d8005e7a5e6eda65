"""kazoo's own tests, as its package carries them, against the embedded server and against a real ZooKeeper.

They run in processes of their own, in groups side by side because most of their time is waiting. Left out are the modules that never
talk to a server, and the tests below, each with its reason. kazoo's tests measure time, so one that fails is tried once more, alone.
"""

import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.cluster.server_process import missing_zookeeper

PROJECT = Path(__file__).parents[2]

GROUPS = [
    ["test_watchers.py", "test_party.py"],
    ["test_partitioner.py", "test_barrier.py", "test_counter.py"],
    ["test_client.py", "test_election.py", "test_queue.py"],
    ["test_lock.py", "test_connection.py", "test_cache.py", "test_lease.py", "test_interrupt.py"],
]

WITHOUT_A_SERVER = {
    "test_build.py": "checks kazoo's own release",
    "test_exceptions.py": "kazoo's classes",
    "test_hosts.py": "parses strings",
    "test_paths.py": "parses strings",
    "test_retry.py": "kazoo's own retry loop",
    "test_security.py": "kazoo's own digests",
    "test_selectors_select.py": "the operating system's select",
    "test_threading_handler.py": "kazoo's own threads",
    "test_utils.py": "kazoo's own sockets",
    "test_eventlet_handler.py": "needs eventlet, which Millstream does not use",
    "test_gevent_handler.py": "needs gevent, which Millstream does not use",
    "test_sasl.py": "needs a server with SASL; the embedded one listens on loopback and has none",
}

NOT_APPLICABLE = {
    "test_client.py::TestClient::test_update_host_list": "stops one server of three and goes on with the others",
    "test_client.py::TestSSLClient::test_create": "TLS to the server",
    "test_client.py::TestReconfig::test_add_remove_observer": "reconfiguration of an ensemble",
    "test_client.py::TestReconfig::test_bad_input": "reconfiguration of an ensemble",
    "test_client.py::TestReconfig::test_no_super_auth": "reconfiguration of an ensemble",
    "test_connection.py::TestReadOnlyMode::test_read_only": "stops two servers of three",
    "test_cache.py::KazooTreeCacheTests::test_close": "counts Python objects alive; one too many with a real ZooKeeper as well",
    "test_cache.py::KazooTreeCacheTests::test_delete_operation": "counts Python objects alive; one too many with a real ZooKeeper as well",
}


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("server", ["embedded", "zookeeper"])
def test_kazoos_own_tests_pass(server: str) -> None:
    if server == "zookeeper" and (reason := missing_zookeeper()):
        pytest.skip(reason)
    with ThreadPoolExecutor(len(GROUPS)) as groups:
        outputs = list(groups.map(lambda modules: _run(server, modules), GROUPS))
    failed = [test for output in outputs for test in _failed(output)]
    for _ in range(3):
        if not failed:
            break
        # Many of them measure time, and several ran at once.
        outputs.append(_run(server, failed))
        failed = _failed(outputs[-1])
    passed = sum(int(count) for output in outputs for count in re.findall(r"(\d+) passed", output))
    assert not failed, "\n".join(outputs)
    assert passed > 200, "\n".join(outputs)


def test_every_module_of_kazoos_tests_is_run_or_left_out_for_a_reason() -> None:
    modules = {path.name for path in _kazoo_tests().glob("test_*.py")}
    assert modules == WITHOUT_A_SERVER.keys() | {module for group in GROUPS for module in group}


def _run(server: str, tests: list[str]) -> str:
    folder = _kazoo_tests()
    command = [sys.executable, "-m", "pytest", "-q", "-rfE", "-c", os.devnull, "--rootdir", str(folder), "--timeout", "90"]
    command += [f"--deselect={test}" for test in NOT_APPLICABLE]
    command += ["-p", "tests.cluster.kazoo_test_plugin", "-p", "no:cacheprovider", "-p", "no:asyncio", "-p", "no:millstream"]
    environment = {**os.environ, "MILLSTREAM_KAZOO_SERVER": server, "ZOOKEEPER_VERSION": "3.8.0"}
    command += [str(folder / test) for test in tests]
    done = subprocess.run(command, cwd=PROJECT, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode in (0, 1), done.stdout + done.stderr
    return done.stdout


def _failed(output: str) -> list[str]:
    return [line.split()[1].rsplit("/", 1)[-1] for line in output.splitlines() if line.startswith(("FAILED ", "ERROR "))]


def _kazoo_tests() -> Path:
    found = find_spec("kazoo")
    assert found is not None
    assert found.origin is not None
    return Path(found.origin).parent / "tests"
