"""Time, processes and the network of a simulation: one queue of events in virtual milliseconds, all chance out of one seed."""

import heapq
import random
from collections.abc import Callable
from dataclasses import dataclass, field

Action = Callable[[], None]


@dataclass
class Process:
    """Something that lives at an address: events of a former life do not reach it, and while it is paused they wait."""

    address: str
    life: int = 0
    is_alive: bool = True
    is_paused: bool = False
    waiting: list[tuple[int, Action]] = field(default_factory=list)


class World:
    """The queue of events."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.now_ms = 0
        self.cuts: set[tuple[str, str]] = set()
        """Links on which nothing arrives, each one way."""
        self.trace: list[str] = []
        self._events: list[tuple[int, int, Action]] = []
        self._count = 0
        self._processes: dict[str, Process] = {}

    def process(self, address: str) -> Process:
        """The process at an address."""
        return self._processes.setdefault(address, Process(address))

    def note(self, line: str) -> None:
        """Something for whoever reads a schedule that failed."""
        self.trace.append(f"{self.now_ms:>7} {line}")

    def after(self, delay_ms: int, action: Action, *, on: Process | None = None) -> None:
        """Do that later; if it belongs to a process, only in its present life."""
        life = None if on is None else on.life

        def run() -> None:
            if on is None:
                action()
            elif on.is_alive and on.life == life:
                if on.is_paused:
                    on.waiting.append((on.life, action))
                else:
                    action()

        self._count += 1
        heapq.heappush(self._events, (self.now_ms + delay_ms, self._count, run))

    def send(self, source: str, target: str, action: Action, *, may_repeat: bool = True) -> None:
        """A message: late, lost where the link is cut, now and then repeated, in no order."""
        if (source, target) in self.cuts or self.random.random() < 0.005:
            return
        for _ in range(2 if may_repeat and self.random.random() < 0.01 else 1):
            slow = self.random.random() < 0.02
            self.after(self.random.randint(100, 900) if slow else self.random.randint(1, 12), action, on=self.process(target))

    def kill(self, process: Process) -> None:
        """It is no more."""
        process.is_alive = False
        process.life += 1
        process.waiting.clear()
        process.is_paused = False

    def resume(self, process: Process) -> None:
        """A paused process does now what came meanwhile."""
        process.is_paused = False
        waiting, process.waiting = process.waiting, []
        for life, action in waiting:
            if process.is_alive and process.life == life and not process.is_paused:
                action()

    def run(self, until_ms: int) -> None:
        """Let events happen until then."""
        while self._events and self._events[0][0] <= until_ms:
            self.now_ms, _, action = heapq.heappop(self._events)
            action()
        self.now_ms = until_ms
