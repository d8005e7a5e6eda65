"""`millstream dump-log`: show what is in the files of a partition, and whether it is sound.

Takes segments (`.log`), indexes (`.index`, `.timeindex`), producer snapshots (`.snapshot`) and partition directories, of Millstream or
of Kafka. Exit code 0: everything is sound; 1: something is damaged, and which files.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from millstream.cli.output import format_timestamp, print_json
from millstream.cli.parameters import Output, OutputFormat
from millstream.cli.plain_json import json_value
from millstream.cli.record_output import readable
from millstream.errors import CommandFailed, KafkaError, UsageError
from millstream.files import Files

if TYPE_CHECKING:
    from millstream.cli.dump_log.segment_inspection import InspectedBatch

Row = dict[str, object]
PROBLEM = "problem"
CODEC_NAMES = {0: "none", 1: "gzip", 2: "snappy", 3: "lz4", 4: "zstd"}
SUFFIXES = (".log", ".index", ".timeindex", ".snapshot")


def dump_log(
    paths: Annotated[list[Path], typer.Argument(metavar="FILE", help="Files, or directories of partitions.", show_default=False)],
    records: Annotated[bool, typer.Option("--records", help="Also every record of the batches.")] = False,
    output: OutputFormat = Output.TABLE,
) -> None:
    """Show batches, index entries and producer snapshots of log files, and check them."""
    damaged = []
    for path in _files_of(paths):
        try:
            problems = _dump_file(path, records=records, output=output)
        except BrokenPipeError:
            raise  # the reader of our output, not the file
        except OSError as error:
            raise CommandFailed(f"Cannot read {path}: {error.strerror}.") from error
        if problems:
            damaged.append(f"{path} ({problems} {'problem' if problems == 1 else 'problems'})")
    if damaged:
        raise CommandFailed(f"Damaged: {', '.join(damaged)}.")


def _files_of(paths: list[Path]) -> list[Path]:
    """The files that are meant, those of a directory in the order of their offsets."""
    found = []
    for path in paths:
        if path.is_dir():
            inside = sorted(child for child in path.iterdir() if child.suffix in SUFFIXES and child.stem.isdigit())
            if not inside:
                raise UsageError(f"There are no log files in {path}: give the directory of a partition, as DATA/TOPIC-0.")
            found += inside
        elif not path.exists():
            raise UsageError(f"There is no file {path}.")
        elif path.suffix not in SUFFIXES:
            raise UsageError(f"{path} is no log file: dump-log reads {', '.join(SUFFIXES)}.")
        else:
            found.append(path)
    return found


def _dump_file(path: Path, *, records: bool, output: Output) -> int:
    """Show one file; returns how many problems it has."""
    if path.suffix == ".log":
        rows = _segment_rows(path, records=records)
    elif path.suffix == ".snapshot":
        rows = _snapshot_rows(path)
    else:
        rows = _index_rows(path)
    shown = problems = 0
    if output is Output.TABLE:
        print(path)
    for row in rows:
        shown += 1
        problems += PROBLEM in row
        if output is Output.JSON:
            print_json({"file": str(path)} | {name: _json(value) for name, value in row.items()})
        else:
            print("  " + _line(row))
    if output is Output.TABLE:
        print(f"  {shown} shown, {problems} damaged")
    return problems


def _line(row: Row) -> str:
    fields = "  ".join(f"{name} {_text(value)}" for name, value in row.items() if name != PROBLEM)
    return f"{fields}  DAMAGED: {row[PROBLEM]}" if PROBLEM in row else fields


def _text(value: object) -> str:
    if value is None or isinstance(value, bytes):
        return readable(value)
    if isinstance(value, tuple):
        return " ".join(f"{name}={_text(content)}" for name, content in value)
    return str(value)


def _json(value: object) -> object:
    if isinstance(value, bytes):
        return json_value(value)
    if isinstance(value, tuple):
        return [[name, _json(content)] for name, content in value]
    return value


def _segment_rows(path: Path, *, records: bool) -> Iterator[Row]:
    from millstream.cli.dump_log.segment_inspection import SegmentFile

    segment = SegmentFile(path)
    for batch in segment.batches():
        yield _batch_row(batch)
        if records and batch.problem is None:
            yield from _record_rows(segment.batch_bytes(batch))


def _batch_row(batch: "InspectedBatch") -> Row:
    header = batch.header
    problem: Row = {} if batch.problem is None else {PROBLEM: batch.problem}
    if header is None:
        return {"position": batch.position, **problem}
    producer: Row = {}
    if header.producer_id >= 0:
        producer = {"producer": header.producer_id, "producer_epoch": header.producer_epoch}
        if header.base_sequence >= 0:
            producer |= {"first_sequence": header.base_sequence, "last_sequence": header.last_sequence}
    flags = {"transactional": header.is_transactional, "control": header.is_control, "log_append_time": header.is_log_append_time}
    return {
        "position": batch.position,
        "first_offset": header.base_offset,
        "last_offset": header.last_offset,
        "records": header.record_count,
        "size": header.size_bytes,
        "codec": CODEC_NAMES.get(header.codec, str(header.codec)),
        "leader_epoch": header.leader_epoch,
        "max_timestamp": format_timestamp(header.max_timestamp),
        **producer,
        **{name: True for name, is_set in flags.items() if is_set},
        "crc": "ok" if batch.has_right_crc else "wrong",
        **problem,
    }


def _record_rows(batch: bytes) -> Iterator[Row]:
    from millstream.wire.records import decode_records

    try:
        for record in decode_records(batch):
            row: Row = {"offset": record.offset, "timestamp": format_timestamp(record.timestamp), "key": record.key, "value": record.value}
            yield row | ({"headers": record.headers} if record.headers else {})
    except KafkaError as error:
        yield {PROBLEM: f"the records of this batch cannot be read: {error}"}


def _index_rows(path: Path) -> Iterator[Row]:
    from millstream.cli.dump_log.segment_inspection import inspect_offset_index, inspect_time_index

    is_time_index = path.suffix == ".timeindex"
    for entry in inspect_time_index(path) if is_time_index else inspect_offset_index(path):
        if is_time_index:
            row: Row = {"timestamp": format_timestamp(entry.key), "offset": entry.value}
        else:
            row = {"offset": entry.key, "position": entry.value}
        yield row if entry.problem is None else row | {PROBLEM: entry.problem}


def _snapshot_rows(path: Path) -> Iterator[Row]:
    from millstream.log.producer_state import ProducerState

    try:
        producers = ProducerState.parse(Files().read_bytes(path))
    except ValueError as error:
        yield {PROBLEM: f"no producer snapshot: {error}"}
        return
    for producer in producers:
        row: Row = {
            "producer": producer.producer_id,
            "producer_epoch": producer.epoch,
            "last_sequence": producer.last_sequence,
            "last_offset": producer.last_offset,
            "timestamp": format_timestamp(producer.last_timestamp),
        }
        is_open = producer.transaction_first_offset >= 0
        yield row | ({"transaction_from_offset": producer.transaction_first_offset} if is_open else {})
