"""One run: a cluster, load, faults one after the other, healing, and the check of everything that was promised."""

import random
import sys
import time
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from math import inf
from typing import Protocol

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from tests.cluster.brokers import NotHealthy, PartitionMetadata
from tests.cluster.faults.checker import Problem, check_deliveries, check_records, check_replicas
from tests.cluster.faults.commits import check_commits
from tests.cluster.faults.faults import KINDS, RECOVERY_DEADLINE_S, NotApplicable, Scene
from tests.cluster.faults.groups import GROUPS, GroupMember, GroupObserver, read_back
from tests.cluster.faults.history import History
from tests.cluster.faults.load import LoadProducer, stored
from tests.cluster.faults.offsets_log import commits_in
from tests.cluster.faults.report import Cycle, Report
from tests.cluster.faults.rig import Rig
from tests.cluster.faults.schedule import schedule
from tests.cluster.faults.segments import batches_of
from tests.cluster.faults.unavailability import worst_gap
from tests.waiting import wait_until

TOPIC = "load"
OFFSETS_TOPIC = "__consumer_offsets"
TOPICS = (TOPIC, OFFSETS_TOPIC)
START_DEADLINE_S = 120.0
CONVERGENCE_DEADLINE_S = 180.0
READ_DEADLINE_S = 300.0
_JOIN_DEADLINE_S = 150.0


@dataclass(frozen=True)
class Plan:
    """How much, and what."""

    kinds: Sequence[str]
    seed: int = 1
    seconds: float = 600.0
    """No further fault begins after that; the checks come on top."""
    attempts: int | None = None
    """Or after so many, those that cannot be on this machine included."""
    partitions: int = 6
    producers: int = 3
    rate: float = 100.0
    """Records a second of each producer."""
    members: int = 2
    """Of each group."""


class LoadThread(Protocol):
    """What all threads of the load have in common."""

    name: str

    def start(self) -> None: ...
    def end(self) -> None: ...
    def join(self, timeout: float | None = None) -> None: ...
    def is_alive(self) -> bool: ...


class Run:
    """Load and faults on a cluster that has been started."""

    def __init__(self, rig: Rig, plan: Plan) -> None:
        self.rig = rig
        self.brokers = rig.brokers
        self.plan = plan
        self.history = History()
        self.report = Report(rig.peer, plan.seed)
        self._scene = Scene(rig, TOPICS, random.Random(plan.seed))
        where, history = rig.brokers.bootstrap_servers, self.history
        self._producers = [
            LoadProducer(number, history, bootstrap_servers=where, topic=TOPIC, partitions=plan.partitions, rate=plan.rate)
            for number in range(plan.producers)
        ]
        self._members = [
            GroupMember(group, number, history, bootstrap_servers=where, topic=TOPIC) for group in GROUPS for number in range(plan.members)
        ]
        self._observer = GroupObserver(history, bootstrap_servers=where, topic=TOPIC, partitions=plan.partitions)

    def run(self) -> Report:
        """All of it."""
        self._begin()
        began = time.monotonic()
        for attempt, kind in enumerate(schedule(self.plan.kinds, self._scene.random)):
            is_enough = time.monotonic() - began > self.plan.seconds or attempt == self.plan.attempts
            if is_enough or self.report.stuck or len(self.report.skipped) == len(self.plan.kinds):
                break
            if kind not in self.report.skipped:
                self._cycle(kind)
        self._finish()
        self.report.seconds = time.monotonic() - began
        return self.report

    def _begin(self) -> None:
        self._create_topic()
        self.brokers.await_healthy([TOPIC], deadline_s=START_DEADLINE_S)
        for thread in (*self._producers, *self._members, self._observer):
            thread.start()
        try:
            wait_until(self._is_under_way, "every partition is written to, every group commits", deadline_s=START_DEADLINE_S)
        except AssertionError as error:
            history = self.history
            raise NotHealthy(f"{error}; {dict(history.failures)}, {len(history.commits)} commits, {history.crashes}") from error
        self.brokers.await_healthy(TOPICS, deadline_s=START_DEADLINE_S)
        say(f"{self.rig.peer}, seed {self.plan.seed}: three brokers under load")

    def _create_topic(self) -> None:
        """Ask until it is there: on a busy machine the first answer may be that it is not known whether it was created."""
        topic = NewTopic(TOPIC, self.plan.partitions, len(self.brokers.nodes), config={"min.insync.replicas": "2"})
        admin = AdminClient({"bootstrap.servers": self.brokers.bootstrap_servers, "log_level": 0})
        end = time.monotonic() + START_DEADLINE_S
        while True:
            try:
                admin.create_topics([topic])[TOPIC].result(START_DEADLINE_S)
                return
            except KafkaException as error:
                if error.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS:
                    return
                if time.monotonic() > end:
                    raise NotHealthy(f"the topic of the load cannot be created: {error}") from error
                time.sleep(1)

    def _is_under_way(self) -> bool:
        written = len(self.history.acknowledgement_times) == self.plan.partitions
        return written and {member.group for member in self._members if member.has_committed} == set(GROUPS)

    def _cycle(self, kind: str) -> None:
        fault = KINDS[kind](self._scene)
        began = time.monotonic()
        try:
            hit = fault.apply()
        except NotApplicable as error:
            self.report.skipped[kind] = str(error)
            return
        except NotHealthy as error:
            self.report.stuck.append(f"{kind}: {error}")
            return
        time.sleep(fault.lasts_s)
        healed = time.monotonic()
        try:
            fault.heal()
            healed = time.monotonic()
            self.brokers.await_healthy(TOPICS, deadline_s=RECOVERY_DEADLINE_S)
            self._await_acknowledgements()
        except (NotHealthy, AssertionError) as error:
            self.report.stuck.append(f"{kind} of {hit}: {error}")
        recovered = time.monotonic()
        times = self._times()
        away = worst_gap(times, began, recovered)
        acknowledged = sum(bisect_right(one, recovered) - bisect_left(one, began) for one in times.values())
        self.report.cycles.append(Cycle(kind, hit, healed - began, recovered - healed, away, acknowledged))
        say(
            f"{kind} of {hit}: lasted {healed - began:.1f} s, no acknowledgement for {away:.1f} s, in sync after {recovered - healed:.1f} s"
        )

    def _times(self) -> dict[int, list[float]]:
        with self.history.lock:
            return {partition: list(times) for partition, times in self.history.acknowledgement_times.items()}

    def _await_acknowledgements(self) -> None:
        """Producers come back by themselves: in every partition something new is acknowledged."""
        healthy = time.monotonic()
        wait_until(
            lambda: all(times[-1] > healthy for times in list(self.history.acknowledgement_times.values())),
            "acknowledgements in every partition",
            deadline_s=RECOVERY_DEADLINE_S,
        )

    def _finish(self) -> None:
        """End the load, let groups come to the end, read everything back, compare."""
        self._end(self._producers, self.report.stuck.append)
        try:
            ends = self._check_stored()
        except AssertionError as error:
            self.report.stuck.append(str(error))
            ends = {}
        self._await_groups(ends)
        # In close() librdkafka may wait for itself without end, with its group empty on the broker: Apache Kafka has seen it too.
        self._end([*self._members, self._observer], self.history.failed)
        self._check_commits()
        replicas = self._in_sync()
        self.brokers.close()
        self._check_replicas(ends, replicas)
        history, report = self.history, self.report
        report.sent = sum(len(producer.partitions) for producer in history.producers.values())
        report.acknowledged = history.acknowledged_count
        report.commits = sum(commit.ended < inf for commit in history.commits)
        report.failures = dict(history.failures) | Counter(self.rig.failed_starts)
        report.stuck += [f"a thread of the load ended: {text}" for text in history.crashes]

    def _end(self, threads: Iterable[LoadThread], note: Callable[[str], None]) -> None:
        for thread in threads:
            thread.end()
        end = time.monotonic() + _JOIN_DEADLINE_S
        for thread in threads:
            thread.join(max(end - time.monotonic(), 0))
            if thread.is_alive():
                note(f"{thread.name} did not end within {_JOIN_DEADLINE_S:g} s")

    def _check_stored(self) -> dict[int, int]:
        """Read everything back; returns the end of each partition."""
        partitions = range(self.plan.partitions)
        values = read_back(self.brokers.bootstrap_servers, TOPIC, partitions, deadline_s=READ_DEADLINE_S)
        logs = {partition: [stored(record.offset, record.value or b"") for record in records] for partition, records in values.items()}
        self.report.stored = sum(map(len, logs.values()))
        self.report.problems += check_records(self.history.producers, logs)
        return {partition: records[-1].offset + 1 if records else 0 for partition, records in logs.items()}

    def _await_groups(self, ends: dict[int, int]) -> None:
        """Both groups commit the end of every partition."""
        for group in GROUPS:
            try:
                wait_until(lambda: self._observer.observe(group) == ends, "committed", deadline_s=CONVERGENCE_DEADLINE_S)  # noqa: B023 - called at once
            except AssertionError:
                self.report.stuck.append(f"group {group} is at {self._observer.observe(group)}, the partitions end at {ends}")
                continue
            committed = {(group, partition): end for partition, end in ends.items()}
            self.report.problems += check_deliveries(self.history.delivered, committed)

    def _check_commits(self) -> None:
        """Read the log of committed offsets, when no member commits any more, and compare."""
        try:
            logs = read_back(
                self.brokers.bootstrap_servers, OFFSETS_TOPIC, self.brokers.metadata(OFFSETS_TOPIC), deadline_s=READ_DEADLINE_S
            )
        except (NotHealthy, AssertionError) as error:
            self.report.stuck.append(str(error))
            return
        log = [commit for records in logs.values() for commit in commits_in(records, topic=TOPIC)]
        self.report.problems += check_commits(self.history.commits, self.history.observed, log)

    def _in_sync(self) -> Mapping[int, PartitionMetadata]:
        """Which replicas have to be equal: one that did not come back may lack something, and have what was never acknowledged."""
        try:
            return self.brokers.metadata(TOPIC)
        except NotHealthy as error:
            self.report.stuck.append(f"the replicas are not compared: {error}")
            return {}

    def _check_replicas(self, ends: Mapping[int, int], partitions: Mapping[int, PartitionMetadata]) -> None:
        with ThreadPoolExecutor() as threads:
            compared = [threads.submit(self._compare, number, ends.get(number, 0), one.in_sync) for number, one in partitions.items()]
            for problems in compared:
                self.report.problems += problems.result()

    def _compare(self, number: int, end: int, in_sync: Iterable[int]) -> list[Problem]:
        directories = {node_id: self.brokers.nodes[node_id].partition_directory(TOPIC, number) for node_id in sorted(in_sync)}
        batches = {node_id: batches_of(directory, below=end) for node_id, directory in directories.items()}
        problems = check_replicas(f"{TOPIC}-{number}", batches)
        if end and not all(batches.values()):
            problems.append(Problem("diverged", f"{TOPIC}-{number} ends at {end}, and a replica is empty"))
        return problems


def say(text: str) -> None:
    """Progress, for whoever waits."""
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)
