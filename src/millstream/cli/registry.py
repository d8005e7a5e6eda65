"""`millstream registry`: schemas in Millstream's registry or any other that speaks Confluent's API. `serve` has a file of its own."""

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from millstream.cli import registry_serve
from millstream.cli.output import print_json, print_table
from millstream.cli.parameters import Output, OutputFormat
from millstream.cli.schema_output import compatibility_lines, print_schema, schema_document
from millstream.errors import CommandFailed, UsageError

if TYPE_CHECKING:
    from millstream.registry.client import RegistryClient
    from millstream.registry.model.records import Reference

app = typer.Typer(help="Register, show, compare and delete schemas; run a registry.", no_args_is_help=True)
app.command("serve")(registry_serve.serve)

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
    subject: Annotated[str | None, typer.Argument(metavar="[SUBJECT]", help="Name of the subject.", show_default=False)] = None,
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
        print_json(schema_document(found))
    else:
        print_schema(found)


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
    """Register a schema; one that is there already is told with its id and version."""
    text, references = _read(file), _references(reference)
    with _client(url) as client:
        found = client.register(subject, text, references=references, normalize=normalize)
    if output is Output.JSON:
        print_json(schema_document(found))
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
    """Tell whether a schema may follow the versions of a subject, and if not, which field breaks what; the exit code says it too."""
    text, references = _read(file), _references(reference)
    with _client(url) as client:
        verdict = client.check(subject, text, version=version, references=references, normalize=normalize)
        level = client.level(subject)
    if output is Output.JSON:
        print_json({"is_compatible": verdict.is_compatible, "level": level, "messages": list(verdict.messages)})
    elif verdict.is_compatible:
        print(f"compatible: {subject} takes it (level {level})")
    else:
        for line in compatibility_lines(verdict.messages):
            print(line)
    if not verdict.is_compatible:
        raise CommandFailed(f"{subject} does not take this schema (level {level}).")


@app.command("config")
def config(
    subject: Annotated[str | None, typer.Argument(metavar="[SUBJECT]", help="A subject; without it, all.", show_default=False)] = None,
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


def _client(url: str) -> "RegistryClient":
    from millstream.registry.client import RegistryClient

    return RegistryClient(url, retries=1)


def _read(file: str) -> str:
    """The text of a schema, checked for being JSON here, where the line can be told."""
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
