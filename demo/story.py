"""What happens in the demo, in its order: everything is started, an evening's traffic is sent, the live broker is killed and comes back,
results are computed, and all of it is compared with what it has to be.
"""

import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from demo.advice import advice, advice_while_running, running_processes, shown
from demo.checks import Check, check_all, check_audit, check_exit_codes
from demo.events import PAGE_VIEWS, SECOND_VIEW_SCHEMA, SITE_TOPICS
from demo.expectation import Expectation, expect
from demo.flags import DemoOptions
from demo.jobs import windows_file
from demo.lake import Lake
from demo.narrator import Advance, Narrator
from demo.observation import Observation, last_metrics, observe, tiers_of
from demo.process import DemoFailed, wait_for
from demo.services import Services
from demo.site_activity import Sending, SiteActivity, make_activity
from demo.summary import show_checks, show_summary
from demo.traffic import Traffic

HOUR_MS: Final = 3_600_000
PICTURE: Final = "views-per-page.html"
AUDIT_PAGE: Final = "audit.html"
_SEEN_EVERY_S: Final = 1.0
_AUDIT_S: Final = 180.0
"""So long the audit may take to say that all is complete; mostly it does at once."""


class Story:
    """One run of the demo."""

    def __init__(self, services: Services, options: DemoOptions, narrator: Narrator) -> None:
        self._services = services
        self._options = options
        self._narrator = narrator
        self._lake = Lake(services.lake)
        self._warm_ms = 0
        """When the load had done its first work, by the clock of this machine."""

    def run(self) -> bool:
        """All of it; whether every check held."""
        # The evening was a few hours ago, so that every ten minutes of it are over for the audit.
        start_ms = int(time.time() * 1000) // HOUR_MS * HOUR_MS - 4 * HOUR_MS
        activity = make_activity(self._options.events, start_ms=start_ms, seed=self._options.seed)
        expected = expect(activity)
        self._start_datacentres()
        self._start_pipeline()
        self._send(activity)
        self._await_arrival(expected)
        self._compute()
        self._await_audit(expected)
        return self._conclude(expected)

    # --- the parts

    def _start_datacentres(self) -> None:
        narrator, services = self._narrator, self._services
        narrator.step("Two datacentres")
        narrator.say(
            "A live broker takes what the site sends; an offline broker gets a copy, for analysis. Each is one process, without a JVM."
        )
        narrator.command("millstream serve --data live    (and another: --data offline)")
        services.start_brokers()
        narrator.say(f"live {services.live}, with its ZooKeeper at {services.addresses['coordination']}; offline {services.offline}")
        narrator.say("A schema registry knows what messages look like; a mirror copies topics, with their offsets; an auditor counts.")
        narrator.command("millstream registry serve --brokers LIVE")
        narrator.command("millstream mirror run --from LIVE --to OFFLINE --topics ... --audit copy")
        narrator.command("millstream audit run --brokers LIVE --brokers OFFLINE")
        services.start_registry()
        services.create_topics()
        services.start_mirror()

    def _start_pipeline(self) -> None:
        narrator, services = self._narrator, self._services
        narrator.step("Those who read")
        narrator.say("At the offline side Spark loads the topics into tables of a lake, every second. Spark takes a while to start.")
        narrator.command(
            "millstream pipeline load --topics page-views,clicks,searches --to lake --value-format avro --every 1 --audit lake"
        )
        services.start_load()
        narrator.say("At the live side a small service looks for robots, with the consumer of the paper: its offsets are in ZooKeeper.")
        services.start_abuse_service()
        services.start_auditor()
        with narrator.waiting("Spark starts"):
            services.await_load()

    def _send(self, activity: SiteActivity) -> None:
        sendings, change = activity.sendings, activity.schema_change
        first, kill = max(len(sendings) // 50, 20), len(sendings) // 2
        back = kill + max(len(sendings) // 50, 20)
        narrator, services = self._narrator, self._services
        narrator.step("An evening on the site")
        narrator.say(
            f"Three hours of page views, clicks and searches, {len(sendings):,} messages in Avro, are sent in {self._options.seconds:g} s. "
            "Some come late, some come twice."
        )
        with (
            narrator.progress(len(sendings)) as advance,
            Traffic(
                services.live,
                services.registry,
                per_second=len(sendings) / max(self._options.seconds, 0.1),
                on_progress=_Watch(services, self._lake, advance).look,
            ) as traffic,
        ):
            traffic.send(sendings[:first])
            self._await_first_rows(first)
            traffic.send(sendings[first:change])
            version = services.register(PAGE_VIEWS, SECOND_VIEW_SCHEMA)
            narrator.say(
                f"The site has a new release: views now say the device. Version {version} of the schema; nothing is stopped for it."
            )
            traffic.send(sendings[change:kill])
            self._kill_and_restart(traffic, sendings[kill:back])
            traffic.send(sendings[back:])
        narrator.say(f"All {traffic.sent:,} messages are acknowledged.")

    def _await_first_rows(self, count: int) -> None:
        """Spark compiles what it runs at first; what that takes says nothing about the delay later."""
        self._narrator.say(f"The first {count:,} messages are sent; Spark is slow until it has done everything once.")
        load = self._services.named("load")
        wait_for(lambda: self._lake.count() >= count, f"the lake has the first {count:,} rows", needs=[load], every_s=0.3)
        self._narrator.say(f"They are rows of the lake ({self._narrator.seconds:.0f} s). Now the rest of the evening.")
        self._warm_ms = int(time.time() * 1000)

    def _kill_and_restart(self, traffic: Traffic, meanwhile: Sequence[Sending]) -> None:
        broker = self._services.live_broker
        self._narrator.say(f"kill -9 {broker.pid}: the live broker is gone, in the middle of it. The site goes on sending.")
        broker.kill()
        traffic.send(meanwhile)
        began = time.monotonic()
        broker.start()
        broker.await_ready()
        self._narrator.say(
            f"It was started again, and is back after {time.monotonic() - began:.1f} s, with its log recovered. Nothing else was restarted."
        )

    def _await_arrival(self, expected: Expectation) -> None:
        services, narrator = self._services, self._narrator
        narrator.step("Everything arrives")
        total = sum(expected.sent.values())
        wait_for(
            lambda: services.ends(services.offline) == services.ends(services.live),
            "the offline broker has every message of the live one",
            needs=[services.named("mirror")],
        )
        narrator.say(f"The mirror has copied everything ({narrator.seconds:.0f} s).")
        wait_for(
            lambda: last_metrics(services.live).get("messages") == expected.sent[PAGE_VIEWS],
            f"the abuse service has handled {expected.sent[PAGE_VIEWS]:,} page views",
            needs=[services.named("abuse-service")],
        )
        wait_for(lambda: self._lake.count() >= total, f"the lake has {total:,} rows", needs=[services.named("load")], every_s=0.3)
        narrator.say(f"The lake has {total:,} rows ({narrator.seconds:.0f} s).")
        if not self._options.keep:
            services.stop("load", "abuse-service")

    def _compute(self) -> None:
        narrator, services = self._narrator, self._services
        narrator.step("Windows and a join")
        narrator.say("Spark counts the views of each page in ten minutes of their own time, and joins views with the clicks on them.")
        narrator.say("Each job is a small file:")
        narrator.command("millstream pipeline windows views_per_page.toml --final")
        narrator.command("millstream pipeline join clicked_views.toml --final")
        with narrator.waiting("Spark computes"):
            services.run_jobs()
        services.run("pipeline", "picture", str(windows_file(services.directory)), "--to", str(services.directory / PICTURE))

    def _await_audit(self, expected: Expectation) -> None:
        services, narrator = self._services, self._narrator
        narrator.step("Did every message arrive?")
        narrator.say("Whoever a message passes has counted it, for each ten minutes; the audit compares these counts.")
        narrator.command("millstream audit report --brokers LIVE --brokers OFFLINE")

        def is_complete() -> bool:
            tiers = tiers_of(services.audit_rows())
            return all(check.holds for check in check_audit(expected, tiers))

        # What is missing is what the check says, in the end.
        with suppress(DemoFailed), narrator.waiting("the audit is asked"):
            wait_for(is_complete, "every tier is complete", every_s=1.0, deadline_s=_AUDIT_S)
        brokers = ["--brokers", services.live, "--brokers", services.offline]
        services.run("audit", "report", *brokers, "--html", str(services.directory / AUDIT_PAGE))

    def _conclude(self, expected: Expectation) -> bool:
        services = self._services
        found = observe(services, since_ms=self._warm_ms)
        checks = check_all(expected, found)
        if not self._options.keep:
            services.stop()
            checks.append(check_exit_codes({process.name: process.exit_code for process in services.processes}))
        self._show(found, checks, expected)
        return all(check.holds for check in checks)

    def _show(self, found: Observation, checks: list[Check], expected: Expectation) -> None:
        narrator, directory = self._narrator, self._services.directory
        narrator.step("What came out of it")
        show_summary(narrator, found, expected.sent)
        narrator.show("")
        show_checks(narrator, checks)
        narrator.step("To look at")
        narrator.say(f"{shown(directory / PICTURE)}    views of the top pages over the evening")
        narrator.say(f"{shown(directory / AUDIT_PAGE)}             the audit, as a heat map")
        narrator.say(
            f"{shown(directory / 'lake')}                   the tables (Delta); logs of all processes: {shown(directory / 'logs')}"
        )
        narrator.step("What to try next")
        for line in advice_while_running(self._services) if self._options.keep else advice(directory):
            narrator.command(line)
        failed = [check for check in checks if not check.holds]
        verdict = (
            f"[red]{len(failed)} of {len(checks)} checks did NOT hold[/red]" if failed else f"[green]all {len(checks)} checks held[/green]"
        )
        narrator.show(f"\n[bold]Done in {narrator.seconds:.0f} s; {verdict}.[/bold]")

    def show_running(self) -> None:
        """What is still there, and how to end it."""
        narrator = self._narrator
        narrator.show("\n[bold]Everything is still running:[/bold]")
        for name, pid in running_processes(self._services):
            narrator.say(f"{pid:>8}  {name}")
        for name, address in self._services.addresses.items():
            narrator.say(f"{name:>14}  {address}")
        narrator.say("Ctrl-C stops all of it.")


class _Watch:
    """Looks now and then how far the messages are that were sent, and shows it."""

    def __init__(self, services: Services, lake: Lake, advance: Advance) -> None:
        self._services = services
        self._lake = lake
        self._advance = advance
        self._next = 0.0
        self._text = ""

    def look(self, sent: int) -> None:
        """Called for every few messages."""
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + _SEEN_EVERY_S
            copied = sum(self._services.ends(self._services.offline)[topic] for topic in SITE_TOPICS)
            self._text = f"sent {sent:,}, mirrored {copied:,}, in the lake {self._lake.count():,}"
        self._advance(sent, self._text)
