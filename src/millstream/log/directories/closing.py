"""The end of one log at a clean stop, in one of the threads that close all of them."""

import logging

from millstream.errors import StorageError
from millstream.log.log import Log

_logger = logging.getLogger(__name__)


def close_log(log: Log) -> bool:
    """Complete the log's files, sync what is left to be synced, let go of them; whether all of it is on the disk now. For a thread."""
    failure: StorageError | None = None
    try:
        flush = log.begin_close()
        if flush is not None:
            # Its name is in a directory that all logs share, and which is synced once for all of them.
            flush.directories = [directory for directory in flush.directories if directory != log.directory.path]
            flush.run()
    except StorageError as error:
        failure = error
    except OSError as error:
        failure = log.directory.fail("closing a log", error)
    if failure is not None:
        _logger.warning("%s was not closed cleanly: %s", log.path, failure)
    is_closed = failure is None and log.directory.offline is None
    log.abandon(is_durable=is_closed)
    return is_closed
