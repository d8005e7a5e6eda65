"""MirrorAppend as a mirror sends it: raw batches, at their own offsets, for topics of one leader (layout: `wire.mirror_append`).

Only Millstream answers it. A broker that keeps offsets announces it; at any other one the request is an `UnsupportedVersion`.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from millstream.buffer import Buffer
from millstream.wire.api import ApiKey
from millstream.wire.mirror_append import MirrorAppendRequest, MirrorTopic, TopicMirrored, decode_response, encode_request


@dataclass(frozen=True)
class MirrorAppend:
    """Append batches to partitions of one leader; answered when all in-sync replicas have them."""

    topics: Sequence[MirrorTopic]
    timeout_ms: int = 30_000
    is_last: bool = False
    """The mirroring ends: open transactions are aborted."""

    api_key = int(ApiKey.MIRROR_APPEND)
    versions = (0, 0)
    has_answer = True

    def encode(self, version: int) -> Sequence[Buffer]:
        return encode_request(MirrorAppendRequest(self.timeout_ms, self.is_last, self.topics))

    def decode(self, version: int, body: memoryview) -> list[TopicMirrored]:
        return decode_response(body)
