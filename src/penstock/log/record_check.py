"""Looking into a batch where the topic wants it: keys on compacted topics, another codec, records that must be well formed.

Off the hot path: this is the only place where an append costs time per record.
"""

from penstock.errors import InvalidRecord
from penstock.files import Buffer
from penstock.log.config import LogConfig
from penstock.wire.batch import BatchHeader, read_header

CODECS = {"uncompressed": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}


def is_needed(config: LogConfig) -> bool:
    """Whether batches of this topic have to be looked into at all."""
    return config.is_compacted or config.check_records or config.compression_type != "producer"


def checked(batch: Buffer, header: BatchHeader, *, config: LogConfig) -> tuple[Buffer, BatchHeader]:
    """The batch as it is to be stored; raises if one of its records breaks the rules of the topic."""
    codec = header.codec if config.compression_type == "producer" else CODECS[config.compression_type]
    is_recompressed = codec != header.codec
    if not (config.is_compacted or config.check_records or is_recompressed):
        return batch, header
    # Imported late: most brokers never look at a record.
    from penstock.wire.compression import Codec
    from penstock.wire.records import decode_records, recompress

    if config.is_compacted or config.check_records:
        count = 0
        for record in decode_records(batch):
            count += 1
            if record.key is None and config.is_compacted:
                raise InvalidRecord("a record without a key in a compacted topic")
        if count != header.record_count:
            raise InvalidRecord(f"the batch claims {header.record_count} records and has {count}")
    if not is_recompressed:
        return batch, header
    rebuilt = recompress(batch, Codec(codec), level=config.compression_level)
    return rebuilt, read_header(rebuilt)
