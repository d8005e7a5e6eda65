"""The offsets of a micro-batch, read from where Spark keeps them before it runs: `<checkpoint>/offsets/<number>`.

A sink is given rows and a number, and nothing about where the rows come from. The file has a line for the version, one for Spark's own
affairs and one per source; a load has one source, and the form of its line is that of `spark.source.reader`.
"""

import json

from pyarrow import fs

from millstream.errors import CommandFailed
from millstream.lake.load_batch import LoadedRange
from millstream.lake.place import Place, open_place
from millstream.spark.source.reader import NOT_BEGUN, StreamOffset, read_stream_offset


def ranges_of(checkpoint: str, batch_id: int, topic: str) -> tuple[LoadedRange, ...]:
    """What the micro-batch has of each partition of a topic; a partition that it is the first of begins with offset 0."""
    place = open_place(checkpoint)
    until, began_at = _offset(place, batch_id)
    if began_at is None:
        began_at = _offset(place, batch_id - 1).offsets if batch_id else {}
    ranges = [
        LoadedRange(one.partition, began_at.get(one, 0), end)
        for one, end in until.items()
        if one.topic == topic and began_at.get(one, 0) < end
    ]
    return tuple(sorted(ranges))


def query_id_at(checkpoint: str) -> str:
    """The id of the query that a checkpoint belongs to."""
    found: str = json.loads(_text(open_place(checkpoint), "metadata"))["id"]
    return found


def _offset(place: Place, batch_id: int) -> StreamOffset:
    lines = _text(place, f"offsets/{batch_id}").splitlines()
    sources = [document for line in lines[2:] if isinstance(document := json.loads(line), dict)]
    if len(sources) != 1:
        raise CommandFailed(
            f"the checkpoint {place.path} has offsets of {len(sources)} sources in micro-batch {batch_id}, and a load has one."
        )
    return StreamOffset({}) if sources[0] == NOT_BEGUN else read_stream_offset(sources[0])


def _text(place: Place, name: str) -> str:
    if place.files.get_file_info(place.child(name)).type == fs.FileType.NotFound:
        raise CommandFailed(f"the checkpoint {place.path} has no {name}: it is incomplete.")
    with place.files.open_input_stream(place.child(name)) as stream:
        text: str = stream.read().decode()
    return text
