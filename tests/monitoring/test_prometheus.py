"""A real Prometheus (Debian's package) scrapes a broker, keeps to the alert rules of the examples, and answers with our figures."""

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from tests.group_offsets import commit, find
from tests.monitoring.published import PublishingBroker, ask_json
from tests.ports import free_port
from tests.topics import create_topic, fresh_name, produce_values
from tests.waiting import wait_until

ROOT = Path(__file__).parent.parent.parent
UNPACKED = ROOT / ".cache" / "prometheus" / "usr" / "bin"
RULES = ROOT / "examples" / "monitoring" / "alerts.yml"


def program(name: str) -> str:
    """Where it is installed, or where `scripts/setup` has unpacked it."""
    found = shutil.which(name) or shutil.which(name, path=str(UNPACKED))
    if found is None:
        pytest.skip(f"no {name} here: scripts/setup fetches it where there is Debian")
    return found


class Prometheus:
    """A running server."""

    def __init__(self, port: int) -> None:
        self._url = f"http://127.0.0.1:{port}/api/v1"

    def query(self, text: str) -> dict[str, float]:
        """The value of each series, by its instance."""
        answer = ask_json(f"{self._url}/query?query={quote(text)}")
        return {str(sorted(row["metric"].items())): float(row["value"][1]) for row in answer["data"]["result"]}

    def targets(self) -> Any:
        """What is scraped, and how that went."""
        return ask_json(f"{self._url}/targets")["data"]["activeTargets"]

    def rules(self) -> list[Any]:
        """The rules, and how they fared."""
        return [rule for group in ask_json(f"{self._url}/rules")["data"]["groups"] for rule in group["rules"]]


@pytest.fixture(scope="module")
def prometheus(broker: PublishingBroker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    directory, port, server = tmp_path_factory.mktemp("prometheus"), free_port(), program("prometheus")
    config = directory / "prometheus.yml"
    example = (RULES.parent / "prometheus.yml").read_text()
    # The example as it is, only sooner, and at this broker.
    config.write_text(example.replace("15s", "1s").replace("127.0.0.1:9308", broker.metrics_address).replace("- alerts.yml", f"- {RULES}"))
    flags = [f"--config.file={config}", f"--storage.tsdb.path={directory / 'data'}", f"--web.listen-address=127.0.0.1:{port}"]
    with (directory / "log.txt").open("wb") as log:
        process = subprocess.Popen([server, *flags], stdout=log, stderr=log)
    try:
        running = Prometheus(port)
        wait_until(lambda: _answers(running, process, directory / "log.txt"), "Prometheus", deadline_s=60)
        yield running
    finally:
        process.terminate()
        process.wait(timeout=60)


def _answers(running: Prometheus, process: "subprocess.Popen[bytes]", log: Path) -> bool:
    assert process.poll() is None, log.read_text()
    try:
        return bool(running.targets())
    except OSError:
        return False


def test_prometheus_reads_what_the_broker_publishes(broker: PublishingBroker, prometheus: Prometheus) -> None:
    topic, group = create_topic(broker), fresh_name("group")
    produce_values(broker, topic, [b"x"] * 10)
    with broker.connect() as connection:
        wait_until(lambda: find(connection, group)[0].error_code == 0, "the coordinator")
        assert commit(connection, group, topic, 3) == 0
    wait_until(lambda: list(prometheus.query(f'kafka_consumergroup_lag{{topic="{topic}"}}').values()) == [7], "the lag", deadline_s=60)
    assert list(prometheus.query(f'sum(kafka_topic_partition_current_offset{{topic="{topic}"}})').values()) == [10]
    assert min(prometheus.query("histogram_quantile(0.99, sum by (le) (millstream_request_seconds_bucket))").values()) > 0
    [target] = prometheus.targets()
    assert (target["health"], target["lastError"]) == ("up", "")


def test_alert_rules_can_be_evaluated_and_are_quiet_about_a_broker_that_is_well(prometheus: Prometheus) -> None:
    def are_evaluated() -> bool:
        return all(rule["health"] == "ok" for rule in prometheus.rules())

    wait_until(are_evaluated, "every rule evaluated", deadline_s=60)
    critical = [rule for rule in prometheus.rules() if rule["labels"]["severity"] == "critical"]
    assert len(critical) > 3
    assert [rule["name"] for rule in critical if rule["alerts"]] == []


def test_page_has_no_fault_that_promtool_finds(broker: PublishingBroker) -> None:
    text = broker.page("/metrics")[1]
    checked = subprocess.run([program("promtool"), "check", "metrics"], input=text, capture_output=True, text=True, timeout=60, check=False)
    # It would like other names than those that kafka_exporter and Kafka have.
    complaints = [line for line in checked.stderr.splitlines() if not line.startswith(("kafka_", "error while linting"))]
    assert (complaints, "parse" in checked.stderr) == ([], False)
