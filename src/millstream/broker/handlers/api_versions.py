"""ApiVersions (18): what this broker answers.

Versions 0-4. 3: flexible, client software name and version (KIP-511), features (KIP-584). 4: features with minimum 0 as well (KIP-1022).
Requests that Kafka does not have (`wire.api.OWN_KEYS`) are listed for our own clients only.
A version we do not know is answered in version 0 with UNSUPPORTED_VERSION and the whole list, so that the client can choose and ask again.
The header of the answer never has tagged fields, whatever the version.
"""

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from millstream.broker.network.api import Api, Request, api, api_of
from millstream.broker.network.outbox import Chunk
from millstream.broker.network.session import is_own_client
from millstream.errors import InvalidRequest, UnsupportedVersion
from millstream.wire import messages
from millstream.wire.api import ApiKey

if TYPE_CHECKING:
    from millstream.wire.requests.api_versions import ApiVersionsRequest

_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")
_FIRST_WITH_SOFTWARE = 3
_FIRST_WITH_FEATURES_FROM_0 = 4


class Feature(NamedTuple):
    """One feature: the levels that the broker knows, and the one that holds in the cluster."""

    name: str
    lowest: int
    highest: int
    finalized: int


FEATURES = (Feature("group.version", 0, 1, 1), Feature("transaction.version", 0, 2, 2))
"""What this broker can do beyond single APIs (KIP-584): only what works. `group.version` 1 is the consumer group protocol of KIP-848,
`transaction.version` 2 the transactions of KIP-890: each has an epoch of its own, and partitions are added by the broker that writes.

There is never a `metadata.version` or `kraft.version`: these number the formats of Kafka's metadata log, which does not exist here.
"""
FINALIZED_EPOCH = 0
"""Kafka counts the changes of finalized levels; here they never change."""


class ApiVersionsFamily:
    """Lists the APIs that clients may use."""

    def __init__(self, apis: Callable[[], Sequence[Api]]) -> None:
        self._apis = apis

    @api(ApiKey.API_VERSIONS, 0, 4)
    def api_versions(self, request: Request) -> Sequence[Chunk]:
        """The list, whatever version was asked in."""
        version = request.api_version
        if not 0 <= version <= api_of(self.api_versions).highest:
            return (self._encode(request, 0, UnsupportedVersion.code),)
        if version >= _FIRST_WITH_SOFTWARE:
            message: ApiVersionsRequest = request.decode()
            name, software_version = message.client_software_name, message.client_software_version
            if not _SOFTWARE.fullmatch(name) or not _SOFTWARE.fullmatch(software_version):
                return (self._encode(request, version, InvalidRequest.code),)
            session = request.session._replace(software_name=name, software_version=software_version)
            request.connection.identify(session)
            return (self._encode(request, version, 0, is_ours=is_own_client(session)),)
        return (self._encode(request, version, 0),)

    def _encode(self, request: Request, version: int, error_code: int, *, is_ours: bool = False) -> bytes:
        keys = [
            {"api_key": answered.key, "min_version": answered.advertised_lowest, "max_version": answered.highest}
            for answered in self._apis()
            if is_ours or not answered.is_own
        ]
        reply: dict[str, object] = {"error_code": error_code, "api_keys": []}
        if error_code != InvalidRequest.code:
            reply |= {
                "api_keys": keys,
                "supported_features": _supported(with_lowest_0=version >= _FIRST_WITH_FEATURES_FROM_0),
                "finalized_features_epoch": FINALIZED_EPOCH,
                "finalized_features": _finalized(),
            }
        return messages.encode_response(ApiKey.API_VERSIONS, version, correlation_id=request.correlation_id, reply=reply)


def _supported(*, with_lowest_0: bool) -> list[dict[str, object]]:
    """What the broker knows; clients before ApiVersions 4 stumble over levels that begin at 0 (KIP-1022)."""
    return [
        {"name": one.name, "min_version": one.lowest, "max_version": one.highest} for one in FEATURES if with_lowest_0 or one.lowest > 0
    ]


def _finalized() -> list[dict[str, object]]:
    """What holds in the cluster."""
    return [{"name": one.name, "min_version_level": one.finalized, "max_version_level": one.finalized} for one in FEATURES]
