"""Runs cases on peers, interleaved: round by round, each peer in turn, the order reversed every other round.

Shared brokers are started when the first case needs them and stopped before an isolated one. A case that fails on a peer is
recorded with its reason and the run goes on; if its broker has died, the next case gets a new one. Whatever was started is
stopped, also after Ctrl-C.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from confluent_kafka import KafkaException

from bench.case import BenchError, Case, Context
from bench.host_memory import fetch_from_host
from bench.peers.service import Kind, Service

MEGABYTES_BEFORE_A_ROUND: Final = 3_000


@dataclass(slots=True)
class Results:
    """All values of all rounds: `values[case][metric][peer]`, and why a case failed on a peer: `failures[case][peer]`."""

    values: dict[str, dict[str, dict[str, list[float]]]] = field(default_factory=dict)
    failures: dict[str, dict[str, str]] = field(default_factory=dict)

    def add(self, case: Case, peer: Kind, *, metric: str, value: float) -> None:
        self.values.setdefault(case.name, {}).setdefault(metric, {}).setdefault(peer.name, []).append(value)

    def fail(self, case: Case, peer: Kind, reason: str) -> None:
        self.failures.setdefault(case.name, {})[peer.name] = reason

    def has_failed(self, case: Case, peer: Kind) -> bool:
        return peer.name in self.failures.get(case.name, {})


class Runner:
    """One run of some cases on some peers in one scratch directory."""

    def __init__(self, peers: Sequence[Kind], *, directory: Path, rounds: int, is_warm: bool = False, say: Callable[[str], None]) -> None:
        self.peers = peers
        self.directory = directory
        self.rounds = rounds
        self.is_warm = is_warm
        self.say = say
        self.results = Results()
        self._shared: dict[str, Service] = {}
        self._starts = 0

    def run(self, cases: Sequence[Case]) -> Results:
        try:
            for case in cases:
                self._run_case(case)
        finally:
            self._stop_shared()
        return self.results

    def _run_case(self, case: Case) -> None:
        if case.isolated:
            self._stop_shared()
        for peer in self.peers:
            self._attempt(case, peer, round_number=0)
        for round_number in range(1, min(self.rounds, case.max_rounds or self.rounds) + 1):
            for peer in self.peers if round_number % 2 else reversed(self.peers):
                self._attempt(case, peer, round_number=round_number)

    def _attempt(self, case: Case, peer: Kind, *, round_number: int) -> None:
        if self.results.has_failed(case, peer):
            return
        try:
            running = None if case.isolated else self._shared_broker(peer)
            directory = self.directory / f"{peer.name}-{case.name}"
            context = Context(peer, running, directory, round_number, self.is_warm, self.say)
            if case.isolated:
                directory.mkdir(parents=True, exist_ok=True)
            if round_number == 0:
                case.prepare(context)
                return
            fetch_from_host(MEGABYTES_BEFORE_A_ROUND)
            values = case.run(context)
        except (BenchError, KafkaException, OSError, BufferError) as error:
            self.results.fail(case, peer, str(error) or type(error).__name__)
            self.say(f"{case.name}: {peer.name} failed: {error}")
            return
        for metric in case.metrics:
            self.results.add(case, peer, metric=metric.name, value=values[metric.name])
        figures = ", ".join(f"{metric.name} {values[metric.name]:,.4g} {metric.unit}" for metric in case.metrics)
        self.say(f"{case.name} round {round_number}: {peer.name}: {figures}")

    def _shared_broker(self, peer: Kind) -> Service:
        broker = self._shared.get(peer.name)
        if broker is None or not broker.is_running:
            if broker is not None:
                broker.kill()
            self._starts += 1
            broker = self._shared[peer.name] = peer.start(self.directory / f"{peer.name}-shared-{self._starts}")
        return broker

    def _stop_shared(self) -> None:
        for broker in self._shared.values():
            try:
                broker.stop()
            except BenchError as error:
                self.say(str(error))
        self._shared.clear()
