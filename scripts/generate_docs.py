"""Writes the documents that are derived from the code: docs/configuration.md from the options, docs/protocol.md from the handlers.

    .venv/bin/python scripts/generate_docs.py            write what is not up to date
    .venv/bin/python scripts/generate_docs.py --check    only say what is not up to date, exit code 1 if something is

`tests/test_project.py` runs the check, so a document cannot fall behind.
"""

import inspect
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from millstream.broker.network.api import Api, api_of
from millstream.broker.routes import ROUTES
from millstream.options.broker import BROKER_OPTIONS, TOPIC_DEFAULTS
from millstream.options.group import GROUP_OPTIONS
from millstream.options.option import Option
from millstream.options.topic import TOPIC_OPTIONS
from millstream.wire.api import API_VERSIONS, ApiKey

DOCS = Path(__file__).parent.parent / "docs"
NOTICE = "<!-- Written by scripts/generate_docs.py: change the code, then run scripts/check --fix. -->"

CONFIGURATION_OPENING = f"""\
# Options

{NOTICE}

Options have Kafka's names, types and defaults (those of Kafka 4.2), and every option that can be set is obeyed, with two exceptions that
stand at the end of each part. An option about something that does not exist here is *taken without effect*: no client could see whether it
was obeyed, and development set-ups carry it. An option that would be a lie with any other value is *fixed*: it can only be set to the
value it has. Everything else is refused with a sentence that says what to do; only what Kafka 4 does not know either, because older
Kafkas or Confluent's images had it (`inter.broker.protocol.version`, `confluent.…`), is passed over with a line on stderr, as Kafka does.

- For a broker: `millstream serve -X num.partitions=3 -X log.retention.hours=24`, or `--config FILE` with one `name=value` per line.
- For a topic: `millstream topic create clicks --config retention.ms=60000`, or any Kafka client's CreateTopics and AlterConfigs.
- While a broker runs, those marked *dynamic* can be changed with any Kafka client's AlterConfigs, for one broker or for all.

A value is looked for on the topic, then on the broker (changed while it runs, for it alone or for all; given at start), then in the
defaults. DescribeConfigs shows the whole chain.
"""

PROTOCOL_DIFFERENCES = """\
## Not as in Kafka, on purpose

`tests/differential` sends the same requests to Apache Kafka 4.2 and compares every field of the answers. What stays different:

- Errors carry a sentence where Kafka has only a code.
- The topic of committed offsets cannot be deleted; Kafka deletes it.
- The header of a batch is believed ([ADR 0002](adr/0002-check-the-header-not-the-records.md)): Kafka computes its times anew.
- Refused here and let pass by Kafka: bytes after the batch, a producer id without an epoch, the flag for LogAppendTime from a
  producer, and, where records are looked at, offsets out of order.
- Requests over which Kafka trips (UNKNOWN_SERVER_ERROR, or no answer at all) are refused for what is wrong with them: Produce without
  records, AlterConfigs that names a resource twice, operations on configs that do not exist, a topic without a name in
  DescribeTopicPartitions.
- Who becomes the leader of a classic group whose leader left, and which member of a KIP-848 group gets the partition that cannot be
  shared out evenly, goes by the order of a hash table in Kafka; here by the order of joining and of the member ids."""

PROTOCOL_OPENING = f"""\
# Protocol

{NOTICE}

Millstream speaks Apache Kafka's wire protocol. These are the APIs and versions that it answers; ApiVersions advertises the same.
A request for another API or version closes the connection, as in Kafka, except that ApiVersions is answered in any version.
"""

RowMaker = Callable[[Option], tuple[str, ...]]


class Route(NamedTuple):
    """A handler, as the documents show it."""

    api: Api
    summary: str
    module: str


def main() -> int:
    """Write or check all documents; returns the exit code."""
    is_check = "--check" in sys.argv[1:]
    stale = []
    for name, lines in (("configuration.md", configuration()), ("protocol.md", protocol())):
        path, content = DOCS / name, "\n".join(lines) + "\n"
        if path.exists() and path.read_text() == content:
            continue
        stale.append(f"docs/{name}")
        if not is_check:
            path.write_text(content)
    if stale:
        print(("not up to date, run scripts/check --fix: " if is_check else "written: ") + ", ".join(stale))
    return 1 if stale and is_check else 0


def configuration() -> Iterator[str]:
    """docs/configuration.md."""
    yield CONFIGURATION_OPENING
    yield from _options_part("Topics", TOPIC_OPTIONS.values(), _topic_row, ("option", "type", "default", "takes", "what it does"))
    yield ""
    own = [option for option in BROKER_OPTIONS.values() if option.name not in TOPIC_DEFAULTS]
    columns = ("option", "type", "default", "changes", "takes", "what it does")
    yield from _options_part("Brokers", own, _broker_row, columns)
    yield ""
    yield from ("## Groups", "")
    yield "What tools can ask about a group. An option cannot be set for one group alone yet; the broker's holds for all."
    yield ""
    groups = ((f"`{option.name}`", f"`{option.synonyms[0]}`", option.documentation) for option in GROUP_OPTIONS.values())
    yield from _table(("option", "value of", "what it does"), groups)
    yield ""
    yield from ("## Defaults of topics, set on brokers", "")
    yield "What a topic has that does not set the option itself."
    yield ""
    defaults = [option for option in BROKER_OPTIONS.values() if option.name in TOPIC_DEFAULTS and _is_obeyed(option)]
    yield from _table(("option", "default of", "default", "changes"), map(_topic_default_row, defaults))


def _options_part(title: str, options: Iterable[Option], row: RowMaker, columns: tuple[str, ...]) -> Iterator[str]:
    listed = list(options)
    yield from (f"## {title}", "")
    yield from _table(columns, (row(option) for option in listed if _is_obeyed(option)))
    yield from ("", f"### {title}: taken without effect", "")
    taken = [option for option in listed if option.without_effect]
    for reason in dict.fromkeys(option.without_effect for option in taken):
        yield from (f"Because {reason}:", "")
        rows = ((f"`{one.name}`", _shown(one.default), one.documentation) for one in taken if one.without_effect == reason)
        yield from _table(("option", "default", "what it does in Kafka"), rows)
        yield ""
    yield from (f"### {title}: fixed", "")
    fixed = ((f"`{option.name}`", _shown(option.default), option.documentation) for option in listed if option.is_fixed)
    yield from _table(("option", "value", "what it does in Kafka"), fixed)


def _is_obeyed(option: Option) -> bool:
    return not option.is_fixed and not option.without_effect


def _topic_row(option: Option) -> tuple[str, ...]:
    return (f"`{option.name}`", option.type.name.lower(), _shown(option.default), option.allows, option.documentation)


def _broker_row(option: Option) -> tuple[str, ...]:
    changes = "at start" if option.is_read_only else "dynamic"
    return (f"`{option.name}`", option.type.name.lower(), _shown(option.default), changes, option.allows, option.documentation)


def _topic_default_row(option: Option) -> tuple[str, ...]:
    of = next(name for name, topic_option in TOPIC_OPTIONS.items() if option.name in topic_option.synonyms)
    return (f"`{option.name}`", f"`{of}`", _shown(option.default), "at start" if option.is_read_only else "dynamic")


def _shown(default: str | None) -> str:
    if default is None:
        return "-"
    return f"`{default}`" if default else "(empty)"


def protocol() -> Iterator[str]:
    """docs/protocol.md."""
    routes = sorted(_routes(), key=lambda route: route.api.key)
    answered = {route.api.key for route in routes}
    yield PROTOCOL_OPENING
    yield from _table(("key", "API", "versions", "what it does"), (_route_row(route) for route in routes))
    yield ""
    yield from ("## Notes per family", "")
    for name in sorted({route.module for route in routes}):
        yield from (f"### `{name.removeprefix('millstream.broker.handlers.')}`", "")
        yield from inspect.cleandoc(sys.modules[name].__doc__ or "").splitlines()
        yield ""
    yield from (PROTOCOL_DIFFERENCES, "")
    yield from ("## Known to Kafka 4.2, not answered", "")
    unanswered = (ApiKey(key) for key in API_VERSIONS if key not in answered)
    yield from _table(("key", "API"), ((str(int(key)), _api_name(key.name)) for key in unanswered))


def _routes() -> Iterator[Route]:
    for functions in ROUTES.values():
        for function in functions:
            yield Route(api_of(function), (inspect.getdoc(function) or "").partition("\n")[0], function.__module__)


def _route_row(route: Route) -> tuple[str, ...]:
    api = route.api
    versions = f"{api.lowest}-{api.highest}"
    if api.advertised_lowest != api.lowest:
        versions += f" (advertised as {api.advertised_lowest}-{api.highest})"
    return (str(int(api.key)), _api_name(api.key.name), versions, route.summary)


def _api_name(name: str) -> str:
    return "".join(word.capitalize() for word in name.split("_"))


def _table(columns: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> Iterator[str]:
    yield "| " + " | ".join(columns) + " |"
    yield "|" + "---|" * len(columns)
    for row in rows:
        yield "| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |"


if __name__ == "__main__":
    sys.exit(main())
