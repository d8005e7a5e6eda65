"""The processes of both datacentres: real `millstream` commands, and the abuse service, which is an application.

live:     website ──► live broker ──► abuse service ──► metrics and alerts, topics of its own
                          │                registry (schemas)
                       mirror, auditor
                          │
offline:              offline broker ──► load ──► lake
                                     └─► windows, join
"""

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from demo.abuse import ALERTS, METRICS
from demo.events import SCHEMAS, SITE_TOPICS
from demo.jobs import LAKE, spark_environment, write_job_files
from demo.process import ROOT, DemoFailed, Process, wait_for
from millstream.client.admin.topic_creation import find_or_create
from millstream.client.cluster import Cluster
from millstream.errors import UnknownTopicOrPartition
from millstream.offset import LATEST
from millstream.registry.client import RegistryClient
from millstream.topic_partition import TopicPartition

MILLSTREAM: Final = str(Path(sys.executable).with_name("millstream"))
PARTITIONS: Final = 3
ALL_TOPICS: Final = (*SITE_TOPICS, METRICS, ALERTS)
MIRROR_TIER: Final = "copy"
LAKE_TIER: Final = "lake"
_COMMAND_S: Final = 120
_JOB_S: Final = 600


class Services:
    """Everything that runs. Whoever starts it calls `stop`, whatever has happened."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.processes: list[Process] = []
        """In the order in which they were started."""
        self.addresses: dict[str, str] = {}
        """Where things are: live, coordination, metrics, offline, registry."""

    @property
    def live(self) -> str:
        """The live broker."""
        return self.addresses["live"]

    @property
    def offline(self) -> str:
        """The offline broker."""
        return self.addresses["offline"]

    @property
    def registry(self) -> str:
        """The address of the schema registry."""
        return f"http://{self.addresses['registry']}"

    @property
    def lake(self) -> Path:
        """Where the tables are."""
        return self.directory / LAKE

    def start_brokers(self) -> None:
        """The brokers of both datacentres, on free ports; the auditor of this place audits both, so they need none of their own."""
        for name, flags in {"live": ["--metrics", "127.0.0.1:0"], "offline": ["--metrics", "off"]}.items():
            process = self._start(f"{name}-broker", *self._serve(name, "127.0.0.1:0", "127.0.0.1:0"), *flags)
            found = process.await_ready()
            self.addresses[name] = found["broker"]
            if name == "live":
                self.addresses |= {"coordination": found["coordination"], "metrics": found["metrics"]}
        self.live_broker.command = [
            MILLSTREAM, *self._serve("live", self.live, self.addresses["coordination"]), "--metrics", self.addresses["metrics"],
        ]  # fmt: skip

    @property
    def live_broker(self) -> Process:
        """The one that is killed on the way; it comes back at the same addresses."""
        return self.named("live-broker")

    def start_registry(self) -> None:
        """The schema registry, and the schemas that the topics begin with."""
        process = self._start("registry", "registry", "serve", "--brokers", self.live, "--listen", "127.0.0.1:0")
        self.addresses["registry"] = process.await_ready()["registry"]
        for topic, schema in SCHEMAS.items():
            self.register(topic, schema)

    def register(self, topic: str, schema: str) -> int:
        """Register a schema for the values of a topic; its version."""
        with RegistryClient(self.registry) as registry:
            registry.register(f"{topic}-value", schema)
            return registry.latest(f"{topic}-value").version or 0

    def create_topics(self) -> None:
        """The topics at the live side; the mirror makes them at the other."""
        with Cluster(self.live) as cluster:
            for topic in ALL_TOPICS:
                find_or_create(cluster, topic, partitions=PARTITIONS if topic in SITE_TOPICS else 1, configs={})

    def start_mirror(self) -> None:
        """The mirror, alone, so that it goes on at once; returns when the offline side has all topics."""
        where = ["--from", self.live, "--to", self.offline]
        mirror = self._start("mirror", "mirror", "run", *where, "--topics", "|".join(ALL_TOPICS), "--alone", "--audit", MIRROR_TIER)
        mirror.await_ready()
        wait_for(lambda: self._are_there(self.offline), "the mirror has made all topics at the offline broker", needs=[mirror])

    def start_auditor(self) -> None:
        """One auditor for both datacentres."""
        self._start("auditor", "audit", "run", "--brokers", self.live, "--brokers", self.offline).await_ready()

    def start_abuse_service(self) -> None:
        """The online consumer, an application of its own."""
        where = ["--brokers", self.live, "--coordination", self.addresses["coordination"], "--registry", self.registry]
        self._launch("abuse-service", [sys.executable, "-m", "demo.abuse_service", *where]).await_ready()

    def start_load(self) -> None:
        """The load into the lake, which goes on for as long as the demo. Spark takes a while to start: `await_load` waits for it."""
        command = ["pipeline", "load", "--brokers", self.offline, "--topics", ",".join(SITE_TOPICS), "--to", str(self.lake)]
        command += ["--checkpoint", str(self.directory / "checkpoints" / "load"), "--every", "1", "--audit", LAKE_TIER]
        command += ["--value-format", "avro", "--registry", self.registry, "--key-format", "string"]
        self._start("load", *command, environment=spark_environment(self.directory))

    def await_load(self) -> None:
        """Until the load takes what comes."""
        load = self.named("load")
        wait_for(lambda: load.line_of(load.stderr, ": running"), "the load into the lake runs", needs=[load])

    def run_jobs(self) -> None:
        """The windows and the join over all that has come, side by side; they end by themselves."""
        jobs = []
        for name, file in write_job_files(self.directory, brokers=self.offline, registry=self.registry).items():
            jobs.append(self._start(name, "pipeline", name, str(file), "--final", environment=spark_environment(self.directory)))
        for job in jobs:
            if job.wait(deadline_s=_JOB_S):
                raise DemoFailed(f"the {job.name} job ended with exit code {job.exit_code}. Its log ends with\n{job.last_lines()}")

    def run(self, *arguments: str) -> str:
        """A command that ends by itself; what it printed."""
        done = subprocess.run([MILLSTREAM, *arguments], capture_output=True, text=True, timeout=_COMMAND_S, check=False, cwd=ROOT)
        if done.returncode:
            raise DemoFailed(f"millstream {' '.join(arguments)} ended with exit code {done.returncode}:\n{done.stdout}{done.stderr}")
        return done.stdout

    def audit_rows(self) -> list[dict[str, Any]]:
        """What `millstream audit report` says of the topics of the site: a row for each topic, tier and ten minutes."""
        brokers = ["--brokers", self.live, "--brokers", self.offline]
        said = self.run("audit", "report", *brokers, "--json", "--topic", f"^({'|'.join(SITE_TOPICS)})$")
        return [json.loads(line) for line in said.splitlines()]

    def ends(self, brokers: str) -> Mapping[str, int]:
        """How many messages each topic has there."""
        with Cluster(brokers) as cluster:
            places = [TopicPartition(topic, number) for topic in ALL_TOPICS for number in cluster.topic(topic).partitions]
            found = cluster.offsets(dict.fromkeys(places, LATEST))
        return {topic: sum(offset.offset for place, offset in found.items() if place.topic == topic) for topic in ALL_TOPICS}

    def named(self, name: str) -> Process:
        """A process that was started."""
        return next(process for process in self.processes if process.name == name)

    def stop(self, *names: str) -> None:
        """Stop these, or all that still run: the last first."""
        for process in reversed(self.processes):
            if process.is_running and (not names or process.name in names):
                process.stop()

    def _serve(self, name: str, listen: str, coordination: str) -> list[str]:
        data = str(self.directory / f"{name}-data")
        return ["serve", "--listen", listen, "--coordination", coordination, "--data", data, "--no-registry", "--no-audit"]

    def _are_there(self, brokers: str) -> bool:
        try:
            return bool(self.ends(brokers))
        except UnknownTopicOrPartition:
            return False

    def _start(self, name: str, *arguments: str, environment: Mapping[str, str] | None = None) -> Process:
        return self._launch(name, [MILLSTREAM, *arguments], environment=environment)

    def _launch(self, name: str, command: list[str], *, environment: Mapping[str, str] | None = None) -> Process:
        process = Process(name, command, self.directory / "logs", environment=environment)
        self.processes.append(process)
        process.start()
        return process
