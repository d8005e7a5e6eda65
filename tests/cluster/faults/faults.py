"""The kinds of faults: each is applied once, lasts a while, and is healed. Whom it hits is asked of the cluster when it comes.

kill-ROLE-fast, kill-ROLE-slow    SIGKILL; started again at once, or when its session is long over
pause-ROLE                        SIGSTOP for longer than the session
cut-coordination                  a leader hears nothing of ZooKeeper (Kafka: of the other controllers), its clients and peers reach it
cut-peers, cut-off                a leader is silent to its peers, or to them and the coordination; clients reach it
one-way-out, one-way-in           a leader's peers do not hear it, or it does not hear them
half-open                         clients' connections to a leader stay open and say nothing
reset-links, slow-links           all connections of a leader end, again and again refused; or are slow
coordination-gone                 ZooKeeper dies, all of it (Kafka: no controller hears another)
coordination-gone-a-minute        the same for a whole minute
coordination-leader-killed        the leader of the ensemble dies (Kafka has none apart from its controller)
power-cut, full-disk              one broker's disk forgets what was not synced, or takes nothing more
rolling-restart                   each broker in turn, cleanly
"""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from random import Random

from tests.cluster.brokers import NotHealthy
from tests.cluster.faults.groups import GROUPS
from tests.cluster.faults.network import SILENT, Condition, Link
from tests.cluster.faults.rig import Rig
from tests.waiting import wait_until

RECOVERY_DEADLINE_S = 180.0
LEFT_ON_FULL_DISK_BYTES = 64 << 10
ROLE_DEADLINE_S = 60.0
SLOW_S = 0.05


class NotApplicable(Exception):
    """This cluster or machine cannot have that fault; the text says why."""


@dataclass(frozen=True)
class Scene:
    """Where faults happen."""

    rig: Rig
    topics: tuple[str, ...]
    """The topic of the load first; then the internal ones."""
    random: Random


Role = Callable[[Scene], int]
"""Finds the broker that a fault hits."""


def leader(scene: Scene) -> int:
    """Who leads a partition of the load, any of them."""
    partitions = scene.rig.brokers.metadata(scene.topics[0])
    return partitions[scene.random.choice(sorted(partitions))].leader


def follower(scene: Scene) -> int:
    """Who follows the leader of some partition."""
    return scene.random.choice(scene.rig.others(leader(scene)))


def controller(scene: Scene) -> int:
    return scene.rig.brokers.controller()


def coordinator(scene: Scene) -> int:
    """Who coordinates one of the groups."""
    return scene.rig.brokers.coordinator(scene.random.choice(sorted(GROUPS)))


class Fault(ABC):
    """One fault, from its beginning to its end."""

    def __init__(self, scene: Scene, *, lasts_sessions: float = 2.0) -> None:
        self.rig = scene.rig
        self.scene = scene
        self.lasts_s = lasts_sessions * scene.rig.session_timeout_s

    @abstractmethod
    def apply(self) -> str:
        """Begin it; says whom it hit. NotApplicable where it cannot be."""

    @abstractmethod
    def heal(self) -> None:
        """End it; whether the cluster has recovered is another question."""


class _OfOneBroker(Fault):
    """Hits the broker that has a role."""

    def __init__(self, scene: Scene, *, role: Role, lasts_sessions: float = 2.0) -> None:
        super().__init__(scene, lasts_sessions=lasts_sessions)
        self._role = role
        self.victim = -1

    def apply(self) -> str:
        self.victim = self._find()
        self.begin()
        return f"broker {self.victim}"

    @abstractmethod
    def begin(self) -> None:
        """Hit the victim."""

    def _find(self) -> int:
        """Who has the role; right after another fault no broker may have it for a moment."""
        end = time.monotonic() + ROLE_DEADLINE_S
        while (found := self._role(self.scene)) not in self.rig.node_ids:
            if time.monotonic() > end:
                raise NotHealthy(f"no broker is {self._role.__name__}")
            time.sleep(0.1)
        return found


class Kill(_OfOneBroker):
    """SIGKILL, and a start on the same data."""

    def begin(self) -> None:
        self.rig.brokers.kill(self.victim)

    def heal(self) -> None:
        self.rig.start(self.victim)


class Pause(_OfOneBroker):
    """SIGSTOP, SIGCONT."""

    def begin(self) -> None:
        self.rig.brokers.pause(self.victim)

    def heal(self) -> None:
        self.rig.brokers.resume(self.victim)


class BadLinks(_OfOneBroker):
    """Some links of a broker are in another condition."""

    def __init__(self, scene: Scene, *, conditions: Callable[[Rig, int], Mapping[Link, Condition]], lasts_sessions: float = 2.0) -> None:
        super().__init__(scene, role=leader, lasts_sessions=lasts_sessions)
        self._conditions = conditions

    def begin(self) -> None:
        for link, condition in self._conditions(self.rig, self.victim).items():
            self.rig.network.set([link], condition)

    def heal(self) -> None:
        self.rig.network.heal()


def no_coordination(rig: Rig, victim: int) -> Mapping[Link, Condition]:
    return dict.fromkeys(rig.coordination_links(victim), SILENT)


def no_peers(rig: Rig, victim: int) -> Mapping[Link, Condition]:
    opened, accepted = rig.peer_links(victim)
    return dict.fromkeys(opened + accepted, SILENT)


def clients_only(rig: Rig, victim: int) -> Mapping[Link, Condition]:
    return {**no_coordination(rig, victim), **no_peers(rig, victim)}


def unheard(rig: Rig, victim: int) -> Mapping[Link, Condition]:
    """What it sends to its peers does not arrive."""
    opened, accepted = rig.peer_links(victim)
    return dict.fromkeys(opened, Condition(holds_requests=True)) | dict.fromkeys(accepted, Condition(holds_answers=True))


def deaf(rig: Rig, victim: int) -> Mapping[Link, Condition]:
    """What its peers send to it does not arrive."""
    opened, accepted = rig.peer_links(victim)
    return dict.fromkeys(opened, Condition(holds_answers=True)) | dict.fromkeys(accepted, Condition(holds_requests=True))


def half_open(rig: Rig, victim: int) -> Mapping[Link, Condition]:
    return dict.fromkeys(rig.client_links(victim), SILENT)


def _all_but_coordination(rig: Rig, victim: int, condition: Condition) -> Mapping[Link, Condition]:
    opened, accepted = rig.peer_links(victim)
    return dict.fromkeys(opened + accepted + rig.client_links(victim), condition)


def reset(rig: Rig, victim: int) -> Mapping[Link, Condition]:
    return _all_but_coordination(rig, victim, Condition(is_cut=True))


def slow(rig: Rig, victim: int) -> Mapping[Link, Condition]:
    return _all_but_coordination(rig, victim, Condition(delay_s=SLOW_S))


class CoordinationGone(Fault):
    """No broker has a coordination."""

    _bring_back: Callable[[], None] | None = None

    def __init__(self, scene: Scene, *, lasts_s: float | None = None, lasts_sessions: float = 3.0) -> None:
        super().__init__(scene, lasts_sessions=lasts_sessions)
        self.lasts_s = lasts_s or self.lasts_s

    def apply(self) -> str:
        self._bring_back = self.rig.kill_coordination()
        if self._bring_back is None:
            self.rig.network.set({link for node_id in self.rig.node_ids for link in self.rig.coordination_links(node_id)}, SILENT)
            self._bring_back = self.rig.network.heal
        return "the coordination"

    def heal(self) -> None:
        assert self._bring_back is not None
        self._bring_back()


class CoordinationLeaderKilled(Fault):
    """The ensemble has to elect another."""

    _bring_back: Callable[[], None] | None = None

    def apply(self) -> str:
        self._bring_back = self.rig.kill_coordination_leader()
        if self._bring_back is None:
            raise NotApplicable("the coordination has no process of its own")
        return "the leader of the ensemble"

    def heal(self) -> None:
        assert self._bring_back is not None
        self._bring_back()


def broker_with_a_disk(scene: Scene) -> int:
    """The one whose data are on a disk of their own."""
    if not scene.rig.disks:
        raise NotApplicable(f"no broker has a disk of its own: {scene.rig.why_no_disk}")
    return scene.random.choice(sorted(scene.rig.disks))


class PowerCut(_OfOneBroker):
    """What was not synced is gone, and so is the process."""

    def begin(self) -> None:
        disk = self.rig.disks[self.victim]
        disk.cut_power()
        self.rig.brokers.kill(self.victim)
        disk.unmount()
        disk.mount()

    def heal(self) -> None:
        self.rig.start(self.victim)


class FullDisk(_OfOneBroker):
    """ENOSPC, until there is room again and the broker is started anew."""

    _filler: Path | None = None

    def begin(self) -> None:
        self._filler = self.rig.disks[self.victim].fill(leave_bytes=LEFT_ON_FULL_DISK_BYTES)

    def heal(self) -> None:
        assert self._filler is not None
        self._filler.unlink()
        self.rig.brokers.kill(self.victim)
        self.rig.start(self.victim)


class RollingRestart(Fault):
    """One after the other, each when all replicas are in sync again."""

    def apply(self) -> str:
        for node_id in self.rig.node_ids:
            self.rig.brokers.stop(node_id)
            self.rig.start(node_id)
            self.rig.brokers.await_healthy(self.scene.topics, deadline_s=RECOVERY_DEADLINE_S)
        return "every broker"

    def heal(self) -> None:
        """Nothing is left to heal."""


class KillAll(Fault):
    """All at once, and all back together."""

    def apply(self) -> str:
        self.rig.brokers.kill(*self.rig.node_ids)
        return "every broker"

    def heal(self) -> None:
        self.rig.start(*self.rig.node_ids)


class StaleFirst(_OfOneBroker):
    """Of the replicas the one that misses what the others acknowledged without it is back alone for a while."""

    def begin(self) -> None:
        self.rig.brokers.kill(self.victim)
        wait_until(self._is_left_behind, f"the others go on without broker {self.victim}", deadline_s=RECOVERY_DEADLINE_S)
        time.sleep(self.lasts_s)
        for node_id in self.rig.others(self.victim):
            self.rig.brokers.kill(node_id)
        self.rig.brokers.launch(self.victim)

    def heal(self) -> None:
        self.rig.brokers.launch(*self.rig.others(self.victim))
        self.rig.await_ready(*self.rig.node_ids)

    def _is_left_behind(self) -> bool:
        partitions = self.rig.brokers.metadata(self.scene.topics[0]).values()
        return all(partition.leader in self.rig.others(self.victim) and self.victim not in partition.in_sync for partition in partitions)


ROLES: tuple[Role, ...] = (leader, follower, controller, coordinator)
KINDS: Mapping[str, Callable[[Scene], Fault]] = {
    **{f"kill-{role.__name__}-fast": partial(Kill, role=role, lasts_sessions=0.0) for role in ROLES},
    **{f"kill-{role.__name__}-slow": partial(Kill, role=role) for role in ROLES},
    **{f"pause-{role.__name__}": partial(Pause, role=role) for role in ROLES},
    "cut-coordination": partial(BadLinks, conditions=no_coordination),
    "cut-peers": partial(BadLinks, conditions=no_peers),
    "cut-off": partial(BadLinks, conditions=clients_only),
    "one-way-out": partial(BadLinks, conditions=unheard),
    "one-way-in": partial(BadLinks, conditions=deaf),
    "half-open": partial(BadLinks, conditions=half_open),
    "reset-links": partial(BadLinks, conditions=reset, lasts_sessions=0.5),
    "slow-links": partial(BadLinks, conditions=slow),
    "coordination-gone": CoordinationGone,
    "coordination-gone-a-minute": partial(CoordinationGone, lasts_s=60.0),
    "coordination-leader-killed": CoordinationLeaderKilled,
    "power-cut": partial(PowerCut, role=broker_with_a_disk, lasts_sessions=0.0),
    "full-disk": partial(FullDisk, role=broker_with_a_disk),
    "kill-all": partial(KillAll, lasts_sessions=0.0),
    "stale-first": partial(StaleFirst, role=leader),
    "rolling-restart": partial(RollingRestart, lasts_sessions=0.0),
}
NEED_A_DISK = frozenset({"power-cut", "full-disk"})
