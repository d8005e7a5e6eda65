"""Records that a query was to read and that are gone: an error, or a warning. That is what `failOnDataLoss` decides."""

import logging

from millstream.errors import MillstreamError
from millstream.spark.source.options import ReadOptions

logger = logging.getLogger(__name__)


class DataLoss(MillstreamError):
    """Records that the query was to read are gone, and `failOnDataLoss` is true."""


def report_data_loss(options: ReadOptions, what: str) -> None:
    """Tell that records are gone, or raise `DataLoss` if that is what the query wants."""
    if options.fail_on_data_loss:
        raise DataLoss(f"{what}. Some data may have been missed; failOnDataLoss = false goes on without it")
    logger.warning("%s. Some data may have been missed", what)
