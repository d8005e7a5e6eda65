import uuid

from tests.unit.log.conftest import NOW_MS, OpenLog
from tests.unit.log.partition import append_many


def test_what_was_written_is_flushed_once_and_missing_files_are_fine(open_log: OpenLog) -> None:
    log = open_log()
    log.close()
    log = open_log(is_clean=False)
    metadata = log.path / "partition.metadata"
    for is_there in (False, True):
        if is_there:
            log.write_topic_id(uuid.uuid4())
        append_many(log, 1)
        first = log.begin_flush()
        assert first is not None
        assert (metadata.name in [handle.path.name for handle in first.handles]) == is_there
        assert (list(first.paths), list(first.directories)) == ([metadata], [log.path, log.path.parent])
        log.complete_flush(first, now_ms=NOW_MS)
        append_many(log, 1)
        second = log.begin_flush()
        assert second is not None
        assert (list(second.paths), list(second.directories)) == ([], [])
        log.complete_flush(second, now_ms=NOW_MS)
