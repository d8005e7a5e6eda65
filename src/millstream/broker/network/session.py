"""Who is at the other end of a connection.

A session is never changed, only replaced (`Connection.identify`): by a client that says who it is, and when the rules become others
(`Listener.renew_sessions`). What was allowed to one session is not allowed to the next: a lane is closed with the session for which it was
opened, and the request after that passes the gate again (`router.admit`).

There are no passwords and no quotas yet: everybody is ANONYMOUS, as on a listener of Kafka's without security, and no client is throttled.
"""

from typing import Final, NamedTuple

from millstream.wire.api import SOFTWARE_NAME

PLAINTEXT: Final = "PLAINTEXT"
ANONYMOUS: Final = "User:ANONYMOUS"
UNKNOWN: Final = "unknown"
"""What Kafka calls the software of a client that has not said which it is (KIP-511)."""


class Session(NamedTuple):
    """What is known of a client; all that rules may rest on."""

    listener: str
    host: str
    principal: str = ANONYMOUS
    client_id: str | None = None
    """As the last request said."""
    software_name: str = UNKNOWN
    software_version: str = UNKNOWN
    throttle_time_ms: int = 0
    """How long the client has to wait, by its quotas, before its next request is handled."""


def is_own_client(session: Session) -> bool:
    """Whether the client says that it is Millstream's own: it may use the APIs that Kafka does not have."""
    return session.software_name == SOFTWARE_NAME
