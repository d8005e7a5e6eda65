"""The first keys and values of a topic, for a guess at what they are. Read once, and only if it is asked for."""

from collections.abc import Iterator, Sequence
from functools import cache
from itertools import islice

from millstream.arrow.columns import Field
from millstream.arrow.kernels.record_kernel import WITH_KEY, WITH_VALUE
from millstream.arrow.partition_reader import PartitionReader
from millstream.tables.detection import SAMPLE_SIZE
from millstream.tables.field_plan import Sample
from millstream.tables.offset_spans import Span, find_spans
from millstream.tables.scan_options import ScanOptions


def sample_of(options: ScanOptions) -> Sample:
    """What gives the sample of a scan."""

    @cache
    def take(name: Field) -> Sequence[bytes]:
        return list(islice(_contents(options, name), SAMPLE_SIZE))

    return take


def _contents(options: ScanOptions, name: Field) -> Iterator[bytes]:
    """Keys or values that are not null, from the beginning of each partition that has any."""
    with options.open_cluster() as cluster:
        spans = [span for span in find_spans(cluster, options) if span.start < span.end]
        for span in spans:
            first = Span(span.place, span.start, min(span.end, span.start + SAMPLE_SIZE))
            wanted = WITH_KEY if name == "key" else WITH_VALUE
            for records in PartitionReader(cluster, options, first, wanted=wanted).read():
                column = records.keys() if name == "key" else records.values()
                yield from (content for content in column.to_arrow().to_pylist() if content is not None)
