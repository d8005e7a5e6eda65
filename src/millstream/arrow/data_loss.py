"""What is raised when records that were to be read are gone; planning needs the name before Arrow is loaded."""

from millstream.errors import MillstreamError


class DataLoss(MillstreamError):
    """Records that were to be read are gone, by retention, by an administrator, or with their topic."""
