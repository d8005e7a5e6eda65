"""Some keys and values of a topic, old and new, for a guess at what they are. Read once, and only if it is asked for."""

from collections.abc import Iterator, Sequence
from functools import cache
from itertools import islice
from typing import Final

from millstream.arrow.columns import Field
from millstream.arrow.kernels.record_kernel import WITH_KEY, WITH_VALUE
from millstream.arrow.partition_reader import PartitionReader
from millstream.tables.detection import SAMPLE_SIZE
from millstream.tables.field_plan import Sample
from millstream.tables.offset_spans import Span, find_spans
from millstream.tables.scan_options import ScanOptions

_MOST_PARTITIONS: Final = 20


def sample_of(options: ScanOptions) -> Sample:
    """What gives the sample of a scan."""

    @cache
    def take(name: Field) -> Sequence[bytes]:
        return list(islice(_contents(options, name), SAMPLE_SIZE))

    return take


def _contents(options: ScanOptions, name: Field) -> Iterator[bytes]:
    """Keys or values that are not null: the oldest of each partition, then the newest."""
    wanted = WITH_KEY if name == "key" else WITH_VALUE
    with options.open_cluster() as cluster:
        for span in sample_spans(find_spans(cluster, options)):
            for records in PartitionReader(cluster, options, span, wanted=wanted).read():
                column = records.keys() if name == "key" else records.values()
                yield from (content for content in column.to_arrow().to_pylist() if content is not None)


def sample_spans(spans: Sequence[Span]) -> list[Span]:
    """The offsets that are looked at: as many at the beginning as at the end of each partition, of a few partitions if there are many."""
    filled = [span for span in spans if span.start < span.end][:_MOST_PARTITIONS]
    share = SAMPLE_SIZE // (2 * len(filled) or 1)
    oldest = [Span(span.place, span.start, min(span.start + share, span.end)) for span in filled]
    newest = [Span(span.place, max(span.end - share, head.end), span.end) for span, head in zip(filled, oldest, strict=True)]
    return [span for span in (*oldest, *newest) if span.start < span.end]
