"""`millstream pipeline picture`: the results of a windows job as one page of HTML."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from millstream.cli.pipeline.extras import need_extra
from millstream.cli.pipeline.job_run import JobFile
from millstream.errors import CommandFailed, UsageError

if TYPE_CHECKING:
    from millstream.spark.jobs.description.windows_job import WindowsJob


def picture(
    file: JobFile,
    *,
    to: Annotated[Path, typer.Option("--to", metavar="FILE.html", help="Where the page goes.")],
    measure: Annotated[str, typer.Option(metavar="NAME", help="The measure to draw.", show_default="the first")] = "",
) -> None:
    """Draw the results of a windows job: a line per key over time, and the figures. No Spark is started."""
    from millstream.spark.jobs.description.job_file import read_job_of
    from millstream.spark.jobs.description.windows_job import WindowsJob
    from millstream.spark.jobs.picture.results_picture import points_of, results_page

    job = read_job_of(WindowsJob, file)
    chosen = _measure(job, measure)
    results = _results(job)
    try:
        points = points_of(results, keys=job.keys, measure=chosen)
    except UsageError as error:
        raise CommandFailed(f"{job.output.topic or job.output.table} cannot be drawn: {error}") from None
    try:
        to.write_text(results_page(points, title=job.name, keys=job.keys, measure=chosen), encoding="utf-8")
    except OSError as error:
        raise CommandFailed(f"cannot write {to}: {error.strerror}") from None
    print(f"{to}: {chosen} of {len(points):,} windows")


def _measure(job: "WindowsJob", name: str) -> str:
    figures = [measure.name for measure in job.parsed_measures if measure.kind != "top"]
    if name and name not in figures:
        raise UsageError(f"--measure: {name!r} is no figure of {job.name}. There are: {', '.join(figures)}")
    if not figures:
        raise UsageError(f'{job.name} measures no figure that could be drawn: add one, such as views = "count"')
    return name or figures[0]


def _results(job: "WindowsJob") -> Iterable[Mapping[str, Any]]:
    need_extra("arrow", "pyarrow")
    if not job.output.topic:
        need_extra("lake", "deltalake")
        from deltalake import DeltaTable
        from deltalake.exceptions import DeltaError

        try:
            rows: list[dict[str, Any]] = DeltaTable(job.output.table).to_pyarrow_table().to_pylist()
        except DeltaError as error:
            raise CommandFailed(f"the table {job.output.table} cannot be read: {error}") from None
        return rows
    from millstream.tables.scan_options import scan_options_among
    from millstream.tables.topic_scan import read_table

    is_avro = job.output.format == "avro"
    table = read_table(
        job.output.topic,
        brokers=job.brokers,
        columns=["value"],
        value_format="avro" if is_avro else "string",
        registry=job.registry if is_avro else None,
        flatten=False,
        # A job has options of producers, too.
        options=scan_options_among(job.kafka),
    )
    values = [value for value in table["value"].to_pylist() if value is not None]
    return values if is_avro else map(_parsed, values)


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text  # whoever makes points of the results says what is wrong with it
