"""Members of groups that live: each in a thread of its own that polls, remembers what it got and then commits.

A message counts as delivered before it is committed, and nothing is committed by itself, so whatever a group loses was lost by the broker
or the client. `Group` holds the members of one test and what all of them got, in the order of delivery.
"""

import queue
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from types import TracebackType
from typing import Any, Self, TypeVar

from tests.brokers import Broker
from tests.clients.group_consumer import CommitRefused, Delivery, GroupConsumer, Membership, Place
from tests.clients.group_kinds import Kind
from tests.clients.numbered import Numbered
from tests.topics import fresh_name
from tests.waiting import DEADLINE_S, wait_until

T = TypeVar("T")


class Member:
    """One consumer and its thread."""

    def __init__(self, kind: Kind, membership: Membership, *, delivered: list[Delivery], commits: bool) -> None:
        self.owned: frozenset[Place] = frozenset()
        self.failure: BaseException | None = None
        self.is_over = threading.Event()
        self._kind = kind
        self._membership = membership
        self._delivered = delivered
        self._commits = commits
        self._calls: queue.SimpleQueue[Callable[[GroupConsumer], None]] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._live, daemon=True, name=f"{kind} in {membership.group}")
        self._thread.start()

    def ask(self, question: Callable[[GroupConsumer], T]) -> T:
        """What the consumer answers, asked between two polls by the thread that owns it."""
        answers: queue.SimpleQueue[tuple[bool, Any]] = queue.SimpleQueue()

        def ask(consumer: GroupConsumer) -> None:
            try:
                answers.put((True, question(consumer)))
            except Exception as error:  # noqa: BLE001 - told to whoever asked
                answers.put((False, error))

        self._calls.put(ask)
        is_answer, answer = answers.get(timeout=DEADLINE_S)
        if not is_answer:
            raise answer
        result: T = answer
        return result

    def leave(self) -> None:
        """Close the consumer and wait until it is closed."""
        self.is_over.set()
        self._thread.join(timeout=DEADLINE_S)
        assert not self._thread.is_alive(), f"{self._thread.name} did not close"
        self.owned = frozenset()

    def _live(self) -> None:
        try:
            consumer = self._kind.open(self._membership)
            try:
                while not self.is_over.is_set():
                    self._turn(consumer)
            finally:
                consumer.close()
        except Exception as error:  # noqa: BLE001 - `Group` raises it in the test's own thread
            self.failure = error

    def _turn(self, consumer: GroupConsumer) -> None:
        deliveries = consumer.poll()
        self._delivered += deliveries
        if deliveries and self._commits:
            with suppress(CommitRefused):  # the rebalance that refused it delivers again
                consumer.commit_later()
        self.owned = consumer.assignment()
        while not self._calls.empty():
            self._calls.get()(consumer)


class Group:
    """The members of one group of consumers, and all that was delivered to them."""

    def __init__(self, broker: Broker, kind: Kind, *topics: str, name: str | None = None, **membership: Any) -> None:
        self.name = name or fresh_name("group")
        self.broker = broker
        self.kind = kind
        self.delivered: list[Delivery] = []
        self.members: list[Member] = []
        self._membership = Membership(broker.bootstrap_servers, self.name, topics, **membership)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        for member in self.members:
            member.is_over.set()
        for member in self.members:
            member.leave()
        if error is None:
            self.check()

    def join(self, *, kind: Kind | None = None, commits: bool = True, **membership: Any) -> Member:
        """One more member; does not wait until it has anything."""
        own = replace(self._membership, **membership)
        member = Member(kind or self.kind, own, delivered=self.delivered, commits=commits)
        self.members.append(member)
        return member

    def leave(self, member: Member) -> None:
        """One member less."""
        self.members.remove(member)
        member.leave()
        if member.failure is not None:
            raise member.failure

    def check(self) -> None:
        """Raise what ended a member."""
        for member in self.members:
            if member.failure is not None:
                raise member.failure

    def wait_until_divided(self, places: set[Place], *, busy: int | None = None) -> None:
        """Wait until each of these partitions is owned by exactly one member, and `busy` members (by default all) own some."""
        expected = min(len(self.members), len(places)) if busy is None else busy
        wait_until(lambda: self._is_divided(places, expected), f"{sorted(places)} divided among {expected} of {self.kind}")

    def wait_for(self, count: int) -> list[Delivery]:
        """Wait until so many messages were delivered."""
        wait_until(lambda: self._has(lambda: len(self.delivered) >= count), f"{count} deliveries to {self.kind}")
        return self.delivered

    def wait_for_all(self, messages: Numbered) -> None:
        """Wait until every message was delivered."""
        wait_until(lambda: self._has(lambda: messages.is_complete(self.delivered)), f"all of {messages.topic} to {self.kind}")

    def _has(self, condition: Callable[[], bool]) -> bool:
        self.check()
        return condition()

    def _is_divided(self, places: set[Place], busy: int) -> bool:
        self.check()
        owned = [place for member in self.members for place in member.owned]
        return sorted(owned) == sorted(places) and sum(1 for member in self.members if member.owned) == busy
