"""Java's clients at work: Kafka's own VerifiableProducer and VerifiableConsumer, processes that say in JSON what they do.

Both are made for tests of faults: the producer would retry nothing, so it is given the defaults of KafkaProducer back.
"""

import json
import subprocess
from pathlib import Path
from typing import Any

from tests.cluster.failover.worker import END_DEADLINE_S, PAUSE_S, Step, Worker
from tests.java import java_command

_TOOLS = "org.apache.kafka.tools"
_PRODUCER_DEFAULTS = {"acks": "all", "enable.idempotence": "true", "retries": "2147483647"}


class JavaWorker(Worker):
    """One process."""

    step_name: str
    error_names: frozenset[str]

    def __init__(self, name: str, topic: str, directory: Path, command: list[str]) -> None:
        super().__init__(name, topic)
        self._output = directory / f"{name}.out"
        self._log = directory / f"{name}.log"
        self._command = command
        self._process: subprocess.Popen[bytes] | None = None
        self._read = 0
        self._steps: list[Step] = []

    @property
    def steps(self) -> list[Step]:
        """Those that the process has printed by now; also finds what it reports as an error."""
        with self._output.open() as file:
            file.seek(self._read)
            for line in file:
                if not line.endswith("\n"):
                    break
                self._read += len(line.encode())
                if line.startswith("{"):
                    self._note(json.loads(line))
        return self._steps

    def start(self) -> None:
        with self._output.open("wb") as output, self._log.open("wb") as log:
            self._process = subprocess.Popen(self._command, stdin=subprocess.DEVNULL, stdout=output, stderr=log)

    @property
    def pid(self) -> int:
        """Of the running process."""
        assert self._process is not None
        return self._process.pid

    def end(self) -> None:
        assert self._process is not None
        if (code := self._process.poll()) is not None:
            self.errors.append(f"ended by itself with {code}: {self._log.read_text()[-2000:]}")
        self._process.terminate()
        try:
            self._process.wait(END_DEADLINE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self.errors.append("did not end")
        assert self.steps is not None

    def _note(self, event: dict[str, Any]) -> None:
        if event["name"] == self.step_name:
            self._steps.append(Step(event["timestamp"] / 1000, int(event["partition"]), int(event["offset"]), int(event["value"])))
        elif event["name"] in self.error_names or event.get("success") is False:
            self.errors.append(json.dumps(event))


class JavaProducer(JavaWorker):
    """Idempotent with acks=all, by default."""

    is_producer = True
    step_name, error_names = "producer_send_success", frozenset({"producer_send_error"})

    def __init__(self, name: str, topic: str, bootstrap_servers: str, directory: Path, **settings: str) -> None:
        self.is_idempotent = self.keeps_all = not settings
        config = directory / f"{name}.properties"
        chosen = _PRODUCER_DEFAULTS | {key.replace("_", "."): value for key, value in settings.items()}
        config.write_text("".join(f"{key}={value}\n" for key, value in chosen.items()))
        arguments = ["--bootstrap-server", bootstrap_servers, "--topic", topic, "--throughput", str(round(1 / PAUSE_S))]
        # One after the other it has thirty keys: then no partition is without some of them.
        arguments += ["--repeating-keys", "30", "--acks", chosen["acks"].replace("all", "-1"), "--command-config", str(config)]
        super().__init__(name, topic, directory, java_command(f"{_TOOLS}.VerifiableProducer", *arguments))


class JavaConsumer(JavaWorker):
    """A member of a group of either protocol, that commits after every poll."""

    is_producer = False
    step_name, error_names = "record_data", frozenset()

    def __init__(self, name: str, topic: str, bootstrap_servers: str, directory: Path, *, group: str, protocol: str) -> None:
        arguments = ["--bootstrap-server", bootstrap_servers, "--topic", topic, "--group-id", group, "--group-protocol", protocol]
        arguments += ["--reset-policy", "earliest", "--verbose"]
        if protocol == "classic":
            arguments += ["--session-timeout", "45000"]
        super().__init__(name, topic, directory, java_command(f"{_TOOLS}.VerifiableConsumer", *arguments))
