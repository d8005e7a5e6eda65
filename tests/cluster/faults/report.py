"""What a run found, for people and as JSON."""

import dataclasses
import json
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path

from tests.cluster.faults.checker import Problem, counts

_SHOWN_OF_EACH_KIND = 5


@dataclass
class Cycle:
    """One fault."""

    kind: str
    hit: str
    lasted_s: float
    """From its beginning to its end."""
    recovered_s: float
    """From its end until all replicas were in sync again."""
    unavailable_s: float
    """The longest time between two acknowledgements of one partition."""
    acknowledged: int
    """Records, from its beginning until all replicas were in sync again."""


@dataclass
class Report:
    """One run."""

    peer: str
    seed: int
    seconds: float = 0.0
    cycles: list[Cycle] = field(default_factory=list)
    skipped: dict[str, str] = field(default_factory=dict)
    """Kinds of faults that could not be, and why."""
    sent: int = 0
    acknowledged: int = 0
    stored: int = 0
    commits: int = 0
    failures: dict[str, int] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    stuck: list[str] = field(default_factory=list)
    """What did not come back after the fault had ended."""

    @property
    def is_good(self) -> bool:
        return not self.problems and not self.stuck

    def write(self, path: Path) -> None:
        """As JSON."""
        path.write_text(json.dumps(dataclasses.asdict(self) | {"counts": counts(self.problems)}, indent=2) + "\n")

    def lines(self) -> list[str]:
        """As people read it."""
        counted = counts(self.problems)
        lines = [
            f"{self.peer}, seed {self.seed}: {len(self.cycles)} faults in {self.seconds:.0f} s",
            f"records: {self.sent} sent, {self.acknowledged} acknowledged, {self.stored} stored; {self.commits} commits of groups",
            "safety: " + ", ".join(f"{count} {kind}" for kind, count in counted.items()),
            *self._table(),
            *(f"not tried: {kind}: {reason}" for kind, reason in self.skipped.items()),
            *(f"failed: {count} x {what}" for what, count in sorted(self.failures.items())),
            *(f"STUCK: {text}" for text in self.stuck),
        ]
        for kind, count in counted.items():
            shown = [problem for problem in self.problems if problem.kind == kind][:_SHOWN_OF_EACH_KIND]
            lines += [f"{kind.upper()}: {problem.text}" for problem in shown]
            lines += [f"{kind.upper()}: and {count - len(shown)} more"] if count > len(shown) else []
        return lines

    def _table(self) -> list[str]:
        by_kind: dict[str, list[Cycle]] = defaultdict(list)
        for cycle in self.cycles:
            by_kind[cycle.kind].append(cycle)
        lines = [f"{'fault':28} {'times':>5} {'lasted':>8} {'acknowledged':>13} {'no ack for, worst':>18} {'in sync again, worst':>21}"]
        for kind, cycles in sorted(by_kind.items()):
            lasted, away, back = (max(getattr(cycle, name) for cycle in cycles) for name in ("lasted_s", "unavailable_s", "recovered_s"))
            acknowledged = sum(cycle.acknowledged for cycle in cycles)
            lines.append(f"{kind:28} {len(cycles):>5} {lasted:>6.1f} s {acknowledged:>13} {away:>16.1f} s {back:>19.1f} s")
        return lines
