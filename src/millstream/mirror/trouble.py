"""What ends the mirroring of a partition or topic until a person has looked at it: `Stopped`, with a sentence that says what to do.

Nothing is overwritten then, and everything else goes on. What may pass by itself (a broker that restarts, a link that is cut) is no
`Stopped`, but a `MillstreamError` of the client, and is tried again.
"""

from millstream.errors import MillstreamError


class Stopped(MillstreamError):
    """This cannot be mirrored any further."""
