"""`millstream mirror pause`, `resume` and `promote`: commands to mirrors and mirrored topics, by way of the cluster that gets the copy."""

import asyncio
from typing import TYPE_CHECKING, Annotated

import typer

from millstream.cli.mirror.parameters import DEFAULT_NAME, MirrorName, Target, TargetConfig, Topics, matching, open_side, pattern_of
from millstream.cli.output import print_json, print_table
from millstream.cli.parameters import DEFAULT_BROKERS
from millstream.errors import CommandFailed

if TYPE_CHECKING:
    from millstream.mirror.clusters.side import Side
    from millstream.mirror.status.mirror_topic import MirrorTopic


def pause(
    *, topics: Topics = None, name: MirrorName = DEFAULT_NAME, target: Target = DEFAULT_BROKERS, target_config: TargetConfig = None
) -> None:
    """Let a mirror stop copying, all topics or some, until it is resumed; also over a restart of its processes."""
    from millstream.mirror.status.paused_topics import EVERY_TOPIC

    async def run() -> list[str]:
        from millstream.clock import SystemClock
        from millstream.mirror.status.mirror_topic import MirrorTopic
        from millstream.mirror.status.paused_topics import pause_entries

        side = open_side(target, target_config)
        try:
            await side.refresh()
            topic = MirrorTopic(side)
            names = [EVERY_TOPIC] if topics is None else await _copied(side, topic, name, topics)
            now_ms = SystemClock().now_ms()
            await topic.write(pause_entries(name, names, now_ms=now_ms), now_ms=now_ms)
            return names
        finally:
            side.close()

    names = asyncio.run(run())
    what = "every topic" if names == [EVERY_TOPIC] else ", ".join(names)
    print(f"paused: {what} of the mirror {name}; go on with `millstream mirror resume`")


async def _copied(target: "Side", topic: "MirrorTopic", mirror: str, topics: str) -> list[str]:
    """The topics that match of those that the mirror reports, or whose copy the target has; `CommandFailed` if there are none."""
    from millstream.mirror.status.mirror_topic import read_statuses
    from millstream.mirror.topics.promotion import mirrored_topics

    pattern = pattern_of(topics)
    known = set(await mirrored_topics(target))
    known |= {
        one.topic for status in read_statuses(await topic.read(), not_before_ms=0) if status.name == mirror for one in status.partitions
    }
    found = sorted(name for name in known if pattern.fullmatch(name))
    if not found:
        raise CommandFailed(
            f"no topic that the mirror {mirror} copies to {target} matches {topics!r}; there are {', '.join(sorted(known)) or 'none'}"
        )
    return found


def resume(
    *, topics: Topics = None, name: MirrorName = DEFAULT_NAME, target: Target = DEFAULT_BROKERS, target_config: TargetConfig = None
) -> None:
    """Let a mirror go on with what was paused, all or some."""
    pattern = None if topics is None else pattern_of(topics)

    async def run() -> list[str]:
        from millstream.clock import SystemClock
        from millstream.mirror.status.mirror_topic import MirrorTopic
        from millstream.mirror.status.paused_topics import PausedTopics, resume_entries

        side = open_side(target, target_config)
        try:
            topic = MirrorTopic(side)
            paused = PausedTopics(name, await topic.read()).names
            names = sorted(each for each in paused if pattern is None or pattern.fullmatch(each))
            if names:
                await topic.write(resume_entries(name, names), now_ms=SystemClock().now_ms())
            return names
        finally:
            side.close()

    names = asyncio.run(run())
    print(f"goes on: {', '.join(names)} of the mirror {name}" if names else f"nothing of the mirror {name} was paused")


def promote(
    *,
    topics: Annotated[str, typer.Option(metavar="REGEX", help="Topics to promote: the whole name has to match.")],
    as_json: Annotated[bool, typer.Option("--json", help="Write one JSON document per partition.")] = False,
    target: Target = DEFAULT_BROKERS,
    target_config: TargetConfig = None,
) -> None:
    """Make mirrored topics writable: no mirror copies to them any more.

    Transactions that are open in what was copied are aborted, and producer ids of the source are never given out here. Stop the producers
    of the source first, and wait until the lag is 0, if nothing may be left behind.
    """
    from millstream.mirror.topics.promotion import Promoted
    from millstream.mirror.topics.promotion import promote as promote_topics

    async def run() -> list[Promoted]:
        side = open_side(target, target_config)
        try:
            return await promote_topics(side, await matching(side, topics))
        finally:
            side.close()

    promoted = asyncio.run(run())
    if as_json:
        for one in promoted:
            print_json(one._asdict())
        return
    print_table(("TOPIC", "PARTITION", "LOG END", "WAS A MIRROR OF"), promoted)
