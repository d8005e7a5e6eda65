"""`millstream registry`: schemas in Millstream's registry or any other that speaks Confluent's API.

`serve` runs a registry by itself, on the topic `_schemas` of Millstream or of any other Kafka. Several may run on one Kafka: one writes,
the others forward to it, so each needs an address at which the others reach it. The ready line is that of `millstream serve`, with one
pair: it comes when the log has been read.
"""

import asyncio
import json
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from millstream.address import Address, parse_listen_address
from millstream.cli.output import print_json, print_table
from millstream.cli.parameters import DEFAULT_BROKERS, Brokers, ClientOptions, Output, OutputFormat
from millstream.cli.properties import parse_assignment
from millstream.coordination.topic_names import SCHEMAS_TOPIC
from millstream.errors import CommandFailed, UsageError
from millstream.log_lines import LOG_LEVELS, log_to_stderr

if TYPE_CHECKING:
    from millstream.registry.client import RegisteredSchema, RegistryClient
    from millstream.registry.model.records import Reference

app = typer.Typer(help="Register, show, compare and delete schemas; run a registry.", no_args_is_help=True)

MESSAGE = re.compile(r"\{errorType:'(?P<kind>[^']*)', description:'(?P<what>.*)', additionalInfo:'(?P<detail>.*)'\}", re.DOTALL)
COMPARED_VERSION = re.compile(r"\{oldSchemaVersion: (?P<version>-?\d+)\}")
DEFAULT_URL = "http://127.0.0.1:8081"
Url = Annotated[
    str, typer.Option("-u", "--url", metavar="URL[,...]", envvar="MILLSTREAM_REGISTRY", help="Where the registry is: http://HOST:PORT.")
]
SubjectName = Annotated[str, typer.Argument(metavar="SUBJECT", help="Name of the subject, e.g. clicks-value.", show_default=False)]
SchemaFile = Annotated[str, typer.Argument(metavar="FILE", help="File with the schema; - is standard input.", show_default=False)]
VersionName = Annotated[str | None, typer.Option("--version", metavar="N|latest", help="One version.")]
References = Annotated[
    list[str] | None,
    typer.Option("-r", "--reference", metavar="NAME=SUBJECT:VERSION", help="A type that another schema defines, and where; repeatable."),
]
Normalize = Annotated[bool, typer.Option("--normalize", help="Sort properties first, so that their order makes no difference.")]
Deleted = Annotated[bool, typer.Option("--deleted", help="Also what was deleted, but not for good.")]


@app.command("serve")
def serve(
    *,
    brokers: Brokers = DEFAULT_BROKERS,
    listen: Annotated[
        str, typer.Option("--listen", metavar="HOST:PORT", help="Where clients connect; port 0 picks a free one.")
    ] = "127.0.0.1:8081",
    advertise: Annotated[
        str | None,
        typer.Option("--advertise", metavar="HOST:PORT", help="Where other instances reach this one.", show_default="where it listens"),
    ] = None,
    topic: Annotated[str, typer.Option("--topic", help="The compacted topic with the schemas.")] = SCHEMAS_TOPIC,
    log_level: Annotated[str, typer.Option("--log-level", help="How much to log on stderr: debug, info, warning, error.")] = "info",
    client_options: ClientOptions = None,
) -> None:
    """Run a schema registry until it is stopped."""
    from millstream.registry.extra import INSTALL, missing_packages

    missing = missing_packages()
    if missing:
        raise UsageError(f"A registry needs {' and '.join(missing)}: {INSTALL}")
    if log_level not in LOG_LEVELS:
        raise UsageError(f"--log-level is one of {', '.join(LOG_LEVELS)}, and not {log_level!r}.")
    from millstream.registry.activation import bind, reachable_url
    from millstream.registry.server import RegistryOptions, serve

    options = {"bootstrap.servers": brokers, **dict(parse_assignment(text, "-X") for text in client_options or [])}
    log_to_stderr(log_level)
    with bind(*parse_listen_address(listen, "--listen"), is_required=True) as listener:
        address = Address(*listener.getsockname()[:2])
        url = f"http://{parse_listen_address(advertise, '--advertise')}" if advertise else reachable_url(*address)
        started = RegistryOptions(client_options=options, url=url, topic=topic)
        asyncio.run(serve(started, listener, on_ready=lambda: print(f"ready: registry {address}", flush=True)))


@app.command("subjects")
def subjects(
    *,
    prefix: Annotated[str | None, typer.Option("--prefix", help="Only subjects that begin with this.")] = None,
    deleted: Deleted = False,
    url: Url = DEFAULT_URL,
    output: OutputFormat = Output.TABLE,
) -> None:
    """List the subjects with their latest version."""
    with _client(url) as client:
        found = client.latest_versions(include_deleted=deleted, prefix=prefix)
    if output is Output.JSON:
        print_json([{"subject": one.subject, "version": one.version, "id": one.schema_id} for one in found])
    else:
        print_table(["subject", "version", "id"], [[one.subject, one.version, one.schema_id] for one in found])


@app.command("get")
def get(
    subject: Annotated[str | None, typer.Argument(metavar="SUBJECT", help="Name of the subject.", show_default=False)] = None,
    *,
    version: VersionName = None,
    schema_id: Annotated[int | None, typer.Option("--id", help="The schema with this id, instead of a subject's.")] = None,
    guid: Annotated[str | None, typer.Option("--guid", help="The schema with this GUID.")] = None,
    deleted: Deleted = False,
    url: Url = DEFAULT_URL,
    output: OutputFormat = Output.TABLE,
) -> None:
    """Show a schema: the latest of a subject, one version, or by id or GUID."""
    if sum(choice is not None for choice in (subject, schema_id, guid)) != 1 or (version is not None and subject is None):
        raise UsageError("Name a subject (and a version), or --id, or --guid.")
    with _client(url) as client:
        if schema_id is not None:
            found = client.schema_by_id(schema_id)
        elif guid is not None:
            found = client.schema_by_guid(guid)
        else:
            found = client.version(subject or "", version or "latest", include_deleted=deleted)
    if output is Output.JSON:
        print_json(_schema_document(found))
    else:
        _print_schema(found)


@app.command("register")
def register(
    subject: SubjectName,
    file: SchemaFile,
    *,
    reference: References = None,
    normalize: Normalize = False,
    url: Url = DEFAULT_URL,
    output: OutputFormat = Output.TABLE,
) -> None:
    """Register a schema; of one that is there already the id and version are shown."""
    text, references = _read(file), _references(reference)
    with _client(url) as client:
        found = client.register(subject, text, references=references, normalize=normalize)
    if output is Output.JSON:
        print_json(_schema_document(found))
    else:
        print(f"{subject} version {found.version} id {found.schema_id}")


@app.command("check")
def check(
    subject: SubjectName,
    file: SchemaFile,
    *,
    version: VersionName = None,
    reference: References = None,
    normalize: Normalize = False,
    url: Url = DEFAULT_URL,
    output: OutputFormat = Output.TABLE,
) -> None:
    """Say whether a schema may follow the versions of a subject, and if not, which field breaks what; the exit code says it too."""
    text, references = _read(file), _references(reference)
    with _client(url) as client:
        verdict = client.check(subject, text, version=version, references=references, normalize=normalize)
        level = client.level(subject)
    if output is Output.JSON:
        print_json({"is_compatible": verdict.is_compatible, "level": level, "messages": list(verdict.messages)})
    elif verdict.is_compatible:
        print(f"compatible: {subject} takes it (level {level})")
    else:
        for line in _compatibility_lines(verdict.messages):
            print(line)
    if not verdict.is_compatible:
        raise CommandFailed(f"{subject} does not take this schema (level {level}).")


@app.command("config")
def config(
    subject: Annotated[str | None, typer.Argument(metavar="SUBJECT", help="A subject; without it, globally.", show_default=False)] = None,
    *,
    level: Annotated[
        str | None, typer.Option("--set", metavar="LEVEL", help="none, backward, forward, full, or one of them with _transitive.")
    ] = None,
    unset: Annotated[bool, typer.Option("--unset", help="Let the global level (or the default one) hold again.")] = False,
    url: Url = DEFAULT_URL,
    output: OutputFormat = Output.TABLE,
) -> None:
    """Show or set the compatibility level of a subject, or the global one."""
    if unset and level is not None:
        raise UsageError("--set and --unset contradict each other.")
    with _client(url) as client:
        if level is not None:
            client.set_level(level, subject=subject)
        elif unset:
            client.delete_level(subject)
        document = {"subject": subject, "level": client.level(subject), "mode": client.mode(subject)}
    if output is Output.JSON:
        print_json(document)
    else:
        print(f"{subject or 'global'}  level {document['level']}  mode {document['mode']}")


@app.command("delete")
def delete(
    subject: SubjectName,
    *,
    version: VersionName = None,
    permanent: Annotated[bool, typer.Option("--permanent", help="For good; only what was deleted before.")] = False,
    url: Url = DEFAULT_URL,
) -> None:
    """Delete a subject, or one version of it. Its ids can still be read, until it is deleted for good."""
    with _client(url) as client:
        if version is None:
            gone = client.delete_subject(subject, permanent=permanent)
        else:
            gone = [client.delete_version(subject, version, permanent=permanent)]
    for number in gone:
        print(f"deleted {subject} version {number}{' for good' if permanent else ''}")


def _print_schema(schema: "RegisteredSchema") -> None:
    """A line about the schema, what it refers to, and the schema itself with indentation."""
    facts = [f"{name} {value}" for name, value in (("id", schema.schema_id), ("guid", schema.guid)) if value not in (None, -1)]
    place = f"{schema.subject} version {schema.version}" if schema.subject else "schema"
    print("  ".join([place, *facts]))
    for one in schema.references:
        print(f"refers to {one.name}: {one.subject} version {one.version}")
    try:
        print(json.dumps(json.loads(schema.schema), indent=2, ensure_ascii=False))
    except ValueError:
        # Another registry may hold schemas of other types.
        print(schema.schema)


def _schema_document(schema: "RegisteredSchema") -> dict[str, Any]:
    """The same for programs."""
    return {
        "subject": schema.subject,
        "version": schema.version,
        "id": schema.schema_id,
        "guid": schema.guid,
        "type": schema.schema_type,
        "schema": schema.schema,
        "references": [{"name": one.name, "subject": one.subject, "version": one.version} for one in schema.references],
    }


def _compatibility_lines(messages: Iterable[str]) -> Iterator[str]:
    """One line per thing that breaks, and the version that it breaks with; a message of another shape as it is."""
    for message in messages:
        found, version = MESSAGE.fullmatch(message), COMPARED_VERSION.fullmatch(message)
        if found is not None:
            yield f"{found['kind']}: {found['what']} ({found['detail']})"
        elif version is not None:
            yield f"  (with version {version['version']})"
        elif not message.startswith(("{oldSchema:", "{compatibility:", "{validateFields:")):
            yield message


def _client(url: str) -> "RegistryClient":
    from millstream.registry.client import RegistryClient

    # The registry has waited for its broker itself.
    return RegistryClient(url, retries=0)


def _read(file: str) -> str:
    """The text of a schema, checked for being JSON here, where the line can be named."""
    try:
        text = sys.stdin.read() if file == "-" else Path(file).read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"The schema cannot be read from {file}: {getattr(error, 'strerror', None) or error}.") from error
    try:
        json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"The schema in {'standard input' if file == '-' else file} is not JSON: {error}.") from error
    return text


def _references(texts: list[str] | None) -> "list[Reference]":
    from millstream.registry.model.records import Reference

    references = []
    for text in texts or []:
        name, _, place = text.partition("=")
        subject, _, version = place.rpartition(":")
        if not name or not subject or not (version.isascii() and version.isdigit()):
            raise UsageError(f"--reference needs NAME=SUBJECT:VERSION, for example shop.Address=address-value:1, and got {text!r}.")
        references.append(Reference(name, subject, int(version)))
    return references
