"""What happens between two datacentres, step by step: traffic, a mirror, faults; then what the audit says, and whether it is right.

    live:    shop ──► orders,  tills ──► payments ──► billing
                          │ mirror "copy"
    offline:              └─► the same topics ──────► warehouse

`Story.tell` does all of it. Its checks raise AssertionError; tests call them one by one. After the faults ten messages disappear from the
offline cluster's disk (`invoices`), ten are sent twice (`receipts`) and ten are skipped by a consumer (`letters`): the audit names them.
"""

import json
import time
from collections.abc import Callable
from contextlib import ExitStack
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, Self

from millstream import Consumer
from millstream.audit.verdict import Row
from tests.auditor.auditor_process import AuditorProcess, audit_report
from tests.batches import decode_records, encode_batch, split_batches
from tests.cluster.faults.reaper import Reaper
from tests.datacentres.applications import (
    BUCKETS,
    FIRST,
    ORDERS,
    PAYMENTS,
    TEN,
    ConfluentConsumer,
    Orders,
    PaperConsumer,
    Received,
    Traffic,
    send_tens,
)
from tests.datacentres.datacentre import BACK_S, Datacentre
from tests.mirror.mirror_process import MirrorProcess, batches_of
from tests.registry.registry_process import RegistryProcess
from tests.topics import produce
from tests.waiting import wait_until

INVOICES, RECEIPTS, LETTERS = "invoices", "receipts", "letters"
HARMED = (INVOICES, RECEIPTS, LETTERS)
HARMED_COUNT = 50
LOST_FROM = 20
"""The first of the ten offsets that are lost or skipped."""
AFTER_A_FAULT = 100
"""So many messages come, to each topic, before the next thing happens."""
Found = dict[str, Any]


class Story:
    """A context manager: everything that was started ends with it."""

    def __init__(self, directory: Path, *, live: str, offline: str, brokers: int = 1, outage_s: float, say: Callable[[str], None]) -> None:
        """`live`, `offline`: the kinds of the datacentres. `outage_s`: how long there is no ZooKeeper."""
        self._directory = directory
        self._outage_s = outage_s
        self._say = say
        self._reaper = Reaper()
        self.live = Datacentre(directory / "live", self._reaper, kind=live, brokers=brokers)
        self.offline = Datacentre(directory / "offline", self._reaper, kind=offline, brokers=brokers)

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            stack.callback(self._reaper.close)
            size = f"{self.live.size} broker{'s' * (self.live.size > 1)} each"
            self._say(f"Two datacentres start, {size}: live on {self.live.kind}, offline on {self.offline.kind}.")
            stack.enter_context(self.live)
            stack.enter_context(self.offline)
            self._registry = self._start_registry(stack)
            self.live.create(ORDERS, PAYMENTS, *HARMED)
            self._orders = Orders(stack.enter_context(self._registry.client()))
            self._mirror = self._start_mirror(stack)
            self._auditor = self._start_auditor(stack)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def tell(self) -> None:
        """All of it."""
        self.run()
        self.check_bytes()
        self.check_counts()
        self.check_ten_that_disappeared()
        self.check_ten_that_were_sent_twice()
        self.check_what_a_consumer_asks()

    # --- what happens

    def run(self) -> None:
        """Traffic and faults; returns when everything has arrived everywhere and was reported."""
        self._traffic = Traffic(self.live.bootstrap_servers, self._orders, registry=self._registry.url)
        self._readers = self._start_readers()
        self._await_traffic("Shop and tills send; the mirror copies; billing (live) and warehouse (offline) read.")
        self._cut_the_link()
        self._kill_the_mirror()
        self._kill_a_broker("live", self.live)
        self._kill_a_broker("offline", self.offline)
        self._stop_zookeeper()
        self._traffic.finish()
        self._say(f"The producers have ended, after {self._traffic.sent} messages to each of two topics.")
        # What comes now is counted when somebody asks for the report: after ten were cut out of a log, not before.
        assert self._auditor.stop() == 0, self._auditor.log
        self._prepare_harm()
        for topic in (ORDERS, PAYMENTS, *HARMED):
            self.offline.await_ends(topic, self.live.ends(topic))
        self._finish_readers()
        assert self._mirror.stop() == 0, self._mirror.output
        self._say("All has arrived; consumers and mirror have ended.")

    def _cut_the_link(self) -> None:
        self.live.cut_link()
        self._await_traffic("The link between the datacentres is cut; the live one does not notice.")
        self.live.heal_link()
        self._await_copy("The link is there again.")

    def _kill_the_mirror(self) -> None:
        self._mirror.kill()
        self._await_traffic("kill -9: the mirror.")
        self._mirror.start()
        self._introduce_mirror()
        self._await_copy("The mirror was started again, and goes on where it was.")

    def _kill_a_broker(self, name: str, place: Datacentre) -> None:
        self._say(f"kill -9: a broker of the {name} datacentre. It is started again.")
        place.kill_broker()
        self._await_traffic("It is back.")
        self._await_copy("The mirror has found it, too.")

    def _stop_zookeeper(self) -> None:
        places = [place for place in (self.live, self.offline) if not place.is_kafka]
        self._say(f"kill -9: ZooKeeper, of {len(places)} datacentres, for {self._outage_s:g} s.")
        for place in places:
            place.stop_zookeeper()
        time.sleep(self._outage_s)
        self._await_traffic("Messages flow without it.")
        for place in places:
            place.start_zookeeper()
        self._await_copy("ZooKeeper is back.")

    def _prepare_harm(self) -> None:
        for partition, topic in enumerate(HARMED):
            send_tens(self.live.bootstrap_servers, self._registry.url, self._orders, topic, partition, HARMED_COUNT)
        partition = HARMED.index(RECEIPTS)
        leader = self.live.leader(RECEIPTS, partition)
        ten = decode_records(batches_of(leader, RECEIPTS, partition)[1][1])
        assert len(ten) == TEN
        again = encode_batch([record.value for record in ten], timestamp=ten[0].timestamp, timestamp_step=1)
        with leader.connect() as connection:
            answer = produce(connection, RECEIPTS, again, partition=partition)
        assert answer.error_code == 0, answer
        self._say(f"Ten of {HARMED_COUNT} {RECEIPTS} were sent twice.")

    # --- what is found

    def check_bytes(self) -> None:
        """Every batch at the target has the offset and, from its CRC on, the bytes that it has at the source."""
        batches = 0
        for topic in (ORDERS, PAYMENTS, *HARMED):
            source, target = self.live.content(topic), self.offline.content(topic)
            assert source == target, f"{topic} differs"
            batches += sum(map(len, source.values()))
        self._say(f"{batches} batches have the same offsets and, from the CRC on, the same bytes in both datacentres.")

    def check_counts(self) -> None:
        """Every tier has every message of every bucket, exactly."""
        expected = self._traffic.expected()
        assert set(expected) == set(BUCKETS)
        for topic, producer in ((ORDERS, "shop"), (PAYMENTS, "tills")):
            rows = self.rows(topic)
            tiers = {(row["tier"], row["cluster"]) for row in rows}
            assert sorted(tier for tier, _ in tiers) == sorted([producer, "broker", "copy", "broker", "billing", "warehouse"])
            assert len(rows) == len(tiers) * len(BUCKETS)
            wrong = [row for row in rows if _judged(row) != (expected[_bucket(row)], 0, 0, "complete", 1.0)]
            assert wrong == [], f"of {dict(expected)}:\n" + "\n".join(map(json.dumps, wrong))
        said = self._report("--topic", f"{ORDERS}|{PAYMENTS}")
        assert said.count("100.000%") == len(tiers) * 2, said
        self._say(f"The audit: 100.000 % at every tier.\n\n{said}")
        self._check_content()

    def check_ten_that_disappeared(self) -> None:
        """Ten are cut out of the log of the offline cluster while it is down; the audit names them."""
        partition = HARMED.index(INVOICES)
        nodes = self.offline.brokers
        nodes.stop(*nodes.nodes)
        for segment in self.offline.segment_files(INVOICES, partition):
            _cut_out_ten(segment)
        nodes.start(*nodes.nodes)
        nodes.await_healthy([INVOICES], deadline_s=BACK_S)
        row = self._only_row(INVOICES, "missing")
        lost = {"from": LOST_FROM, "to": LOST_FROM + TEN - 1}
        assert (row["topic"], _bucket(row), row["tier"], row["kind"], row["verdict"]) == (INVOICES, FIRST, "broker", "broker", "missing"), (
            row
        )
        assert (row["missing"], row["count"]) == (TEN, HARMED_COUNT - TEN), row
        assert row["losses"] == [{"before": "copy", "partition": partition, "count": TEN, "offsets": [lost]}], row
        self._say(f"Ten invoices were cut out of the offline cluster's disk. The audit:\n{json.dumps(row)}\n")

    def check_ten_that_were_sent_twice(self) -> None:
        """The broker has ten more than were sent; the audit names them."""
        row = self._only_row(RECEIPTS, "surplus")
        assert (row["topic"], _bucket(row), row["tier"], row["kind"], row["verdict"]) == (RECEIPTS, FIRST, "broker", "broker", "surplus"), (
            row
        )
        assert (row["surplus"], row["count"]) == (TEN, HARMED_COUNT + TEN), row
        assert row["surpluses"] == [{"before": "tills", "partition": HARMED.index(RECEIPTS), "count": TEN, "offsets": []}], row
        self._say(f"Ten receipts were sent twice. The audit:\n{json.dumps(row)}\n")

    def check_what_a_consumer_asks(self) -> None:
        """A consumer that skipped ten finds out by itself, as in the paper; after that it reads them, and has everything."""
        partition = HARMED.index(LETTERS)
        with Consumer(self.offline.coordination, "archive", audit="archive") as consumer:
            [stream] = consumer.create_message_streams(LETTERS)
            for message in stream:
                if message.offset == LOST_FROM - 1:
                    stream.seek(LOST_FROM + TEN, partition=partition)
                if message.offset == HARMED_COUNT - 1:
                    break
            consumer.commit()
            verdict = consumer.audit.verdict(LETTERS, FIRST + timedelta(minutes=5))
            [loss] = verdict.losses
            assert (verdict.verdict, verdict.missing) == ("missing", TEN), verdict
            assert (loss.partition, loss.ranges) == (partition, ((LOST_FROM, LOST_FROM + TEN),)), verdict
            self._say(f"A consumer skipped ten letters, and asks: {_in_words(verdict)}")

    def rows(self, topic: str) -> list[Found]:
        """What `millstream audit report --json` says of a topic, in both datacentres."""
        return [json.loads(line) for line in self._report("--json", "--topic", topic).splitlines()]

    def _only_row(self, topic: str, number: str) -> Found:
        """The only tier and bucket of a topic with a number above 0."""
        rows = self.rows(topic)
        found = [row for row in rows if row[number]]
        assert len(found) == 1, f"{number} of {topic}:\n" + "\n".join(map(json.dumps, rows))
        return found[0]

    def _check_content(self) -> None:
        everything = set(range(self._traffic.sent))
        for name, reader in self._readers.items():
            assert set(map(self._orders.decode, reader.payloads())) == everything, name

    # --- the parts

    def _start_registry(self, stack: ExitStack) -> RegistryProcess:
        place = self._directory / "registry"
        place.mkdir()
        registry = RegistryProcess(self.live.bootstrap_servers, place)
        stack.callback(registry.kill)
        registry.start()
        self._reaper.watch(registry.process.pid)
        return registry

    def _start_mirror(self, stack: ExitStack) -> MirrorProcess:
        place = self._directory / "mirror"
        place.mkdir()
        topics = "|".join((ORDERS, PAYMENTS, *HARMED))
        source, target = self.live.bootstrap_servers, self.offline.bootstrap_servers
        self._say(f"millstream mirror run --from {source} --to {target} --topics '{topics}' --audit copy")
        self._mirror = stack.enter_context(MirrorProcess(place, source, target, "--topics", topics, "--audit", "copy"))
        self._introduce_mirror()
        return self._mirror

    def _introduce_mirror(self) -> None:
        self._reaper.watch(self._mirror.pid)
        for place in (self.live, self.offline):
            place.knows(self._mirror.pid)

    def _start_auditor(self, stack: ExitStack) -> AuditorProcess:
        words = ["--brokers", self.live.bootstrap_servers, "--brokers", self.offline.bootstrap_servers, "--registry", self._registry.url]
        self._say(f"millstream audit run {' '.join(words)}")
        auditor = AuditorProcess(self._directory / "auditor", *words)
        stack.callback(auditor.kill)
        self._reaper.watch(auditor.process.pid)
        return auditor

    def _start_readers(self) -> dict[str, Received]:
        readers: dict[str, Received] = {}
        for topic in (ORDERS, PAYMENTS):
            readers[f"billing {topic}"] = (
                ConfluentConsumer(self.live.bootstrap_servers, "billing", topic)
                if self.live.is_kafka
                else PaperConsumer(self.live.coordination, "billing", topic)
            )
            wait_until(partial(self.offline.ends, topic), f"{topic} is offline, too", deadline_s=BACK_S)
            readers[f"warehouse {topic}"] = ConfluentConsumer(self.offline.bootstrap_servers, "warehouse", topic)
        return readers

    def _finish_readers(self) -> None:
        for name, reader in self._readers.items():
            topic = name.split()[1]
            wanted = {(partition, offset) for partition, end in self.live.ends(topic).items() for offset in range(end)}
            wait_until(partial(_has, reader, wanted), f"{name} has everything", deadline_s=BACK_S)
            reader.close()

    def _await_traffic(self, what: str) -> None:
        self._say(what)
        self._await_growth(self.live, what)

    def _await_copy(self, what: str) -> None:
        self._say(what)
        self._await_growth(self.offline, what)

    def _await_growth(self, place: Datacentre, what: str) -> None:
        """Until more messages have come than there are at the source now: what is new passes all the way."""
        for topic in (ORDERS, PAYMENTS):
            goal = wait_until(partial(self.live.total, topic), what, deadline_s=BACK_S) + AFTER_A_FAULT
            self._await_total(place, topic, goal, what)

    def _await_total(self, place: Datacentre, topic: str, goal: int, what: str) -> None:
        def has_come() -> bool:
            assert self._mirror.is_running or place is self.live, self._mirror.output
            return place.total(topic) >= goal

        wait_until(has_come, f"{topic} has {goal} messages: {what}", deadline_s=BACK_S)

    def _report(self, *arguments: str) -> str:
        brokers = [self.live.bootstrap_servers, "--brokers", self.offline.bootstrap_servers]
        return audit_report(*brokers, "--registry", self._registry.url, *arguments)


def _has(reader: Received, wanted: set[tuple[int, int]]) -> bool:
    return reader.places() == wanted


def _bucket(row: Found) -> datetime:
    return datetime.fromisoformat(row["bucket"])


def _judged(row: Found) -> tuple[object, ...]:
    return row["count"], row["missing"], row["surplus"], row["verdict"], row["completeness"]


def _in_words(row: Row) -> str:
    [loss] = row.losses
    start, end = loss.ranges[0]
    return f"{row.verdict} {row.missing} of {row.expected} after {loss.before}, partition {loss.partition}, offsets {start}-{end - 1}"


def _cut_out_ten(segment: Path) -> None:
    """Remove a batch of ten; indexes are built anew where they are missing."""
    kept = b"".join(batch for header, batch in split_batches(segment.read_bytes()) if header.base_offset != LOST_FROM)
    assert len(kept) < segment.stat().st_size, f"no batch begins at {LOST_FROM}"
    segment.write_bytes(kept)
    for suffix in (".index", ".timeindex"):
        segment.with_suffix(suffix).unlink(missing_ok=True)
