"""What a connection needs to know of a request: its API, the versions its codec speaks, how to write it and how to read the answer.

`MessageRequest` is any request of Kafka's as a mapping of its field names; its answer is the named tuple of `wire.responses`:

    request: MessageRequest[MetadataResponse] = MessageRequest(ApiKey.METADATA, {"topics": None})

Fetch and Produce have codecs of their own, in `client.fetch` and `client.produce`, that leave record batches alone.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar, cast

from millstream.buffer import Buffer
from millstream.wire.api import API_VERSIONS
from millstream.wire.messages import decode_response, encode_request_body

AnswerT = TypeVar("AnswerT")
AnswerT_co = TypeVar("AnswerT_co", covariant=True)


class Request(Protocol[AnswerT_co]):
    """One request; it may be sent more than once, at whatever version the broker speaks."""

    @property
    def api_key(self) -> int:
        """Kafka's number of the API."""

    @property
    def versions(self) -> tuple[int, int]:
        """Lowest and highest version that `encode` and `decode` know."""

    @property
    def has_answer(self) -> bool:
        """Whether the broker answers; only Produce with acks=0 is not answered."""

    def encode(self, version: int) -> Sequence[Buffer]:
        """The body, in pieces that are sent one after the other."""

    def decode(self, version: int, body: memoryview) -> AnswerT_co:
        """What the body of the answer says; it may keep views into `body`."""


@dataclass(frozen=True)
class MessageRequest(Generic[AnswerT]):
    """A request as a mapping of Kafka's field names; fields that a version does not have are left out of it."""

    api_key: int
    fields: Mapping[str, object]
    lowest: int = 0
    highest: int = 0x7FFF

    has_answer = True

    @property
    def versions(self) -> tuple[int, int]:
        known = API_VERSIONS[self.api_key]
        return max(self.lowest, known.lowest), min(self.highest, known.highest)

    def encode(self, version: int) -> Sequence[Buffer]:
        return (encode_request_body(self.api_key, version, request=self.fields),)

    def decode(self, version: int, body: memoryview) -> AnswerT:
        return cast("AnswerT", decode_response(self.api_key, version, body=body))
