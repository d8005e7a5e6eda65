"""What can be wrong with a table of the lake; each message says which table, what, and what to do."""

from millstream.errors import MillstreamError, UsageError


class TableMismatch(UsageError):
    """The table that is there is not one that these rows can go into."""


class LoadConflict(MillstreamError):
    """The table does not stand where the load thinks it does: another load wrote to it, or one of the two was set back."""


class LakeFull(MillstreamError):
    """There is no room for the files of a micro-batch."""


class LakeRefused(MillstreamError):
    """The files of a micro-batch may not be written where they should be."""


class BadColumns(UsageError):
    """What the messages are read as cannot become the columns of a table."""
