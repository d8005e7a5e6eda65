"""Passing a write on to the instance that writes.

The request goes as it came, with two headers more: that it was forwarded (Confluent's `X-Forward`, so that it is not forwarded again) and
which instance is meant. An answer counts only if that instance says it is from it: at its address may be something else by now. While there
is no answer, the instance is asked every `PATIENCE_SECONDS` whether it is there at all: a write may take long, an instance that stands
still is replaced. Everything but a trustworthy answer is `LeaderAway`: no connection, no sign of life, another instance, or one that does
not write any more.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from http.client import HTTPException
from typing import Final

from millstream.registry.addresses import parse_addresses
from millstream.registry.connection import Registry

FORWARD_SECONDS: Final = 15.0
PATIENCE_SECONDS: Final = 1.5
FORWARD_HEADER: Final = "x-forward"
INSTANCE_HEADER: Final = "millstream-instance"
OFFSET_HEADER: Final = "millstream-offset"
LEADER_UNKNOWN: Final = b'"error_code":50004'
MAX_KEPT: Final = 8


class LeaderAway(Exception):
    """The instance that writes did not answer."""


@dataclass(frozen=True, slots=True)
class Forwarded:
    """A request that may be forwarded."""

    method: str
    path: str
    body: bytes
    content_type: str
    was_forwarded: bool = False


@dataclass(frozen=True, slots=True)
class Answer:
    """What the other instance answered, and up to where the log has to be read to see it."""

    status: int
    body: bytes
    offset: int | None


class Forwarder:
    """Keeps connections to the instances that write or wrote."""

    def __init__(self) -> None:
        self._registries: dict[str, Registry] = {}

    async def forward(self, request: Forwarded, *, url: str, instance: str) -> Answer:
        """The answer of the instance at `url`; raises LeaderAway."""
        headers = {FORWARD_HEADER: "true", INSTANCE_HEADER: instance, "Content-Type": request.content_type}
        exchange = asyncio.create_task(
            asyncio.to_thread(self._registry(url).exchange, request.method, request.path, body=request.body or None, headers=headers)
        )
        while not (await asyncio.wait({exchange}, timeout=PATIENCE_SECONDS))[0]:
            if not await _is_there(url, instance):
                exchange.add_done_callback(lambda late: late.cancelled() or late.exception())
                raise LeaderAway("it gives no sign of life")
        try:
            status, answered, body = exchange.result()
        except (OSError, HTTPException) as error:
            raise LeaderAway(str(error) or type(error).__name__) from error
        if answered.get(INSTANCE_HEADER) != instance:
            raise LeaderAway("something else answers there")
        if status == 500 and LEADER_UNKNOWN in body:
            raise LeaderAway("it does not write any more")
        return Answer(status, body, _offset(answered))

    def close(self) -> None:
        """Close the connections."""
        for registry in self._registries.values():
            registry.close()

    def _registry(self, url: str) -> Registry:
        if url not in self._registries:
            if len(self._registries) >= MAX_KEPT:
                self._registries.pop(next(iter(self._registries))).close()
            self._registries[url] = Registry(*parse_addresses(url), timeout_s=FORWARD_SECONDS)
        return self._registries[url]


async def _is_there(url: str, instance: str) -> bool:
    """Whether the instance answers anything."""
    registry = Registry(*parse_addresses(url), timeout_s=PATIENCE_SECONDS)
    try:
        _, answered, _ = await asyncio.to_thread(registry.exchange, "GET", "/", body=None, headers={})
    except (OSError, HTTPException):
        return False
    finally:
        registry.close()
    return answered.get(INSTANCE_HEADER) == instance


def _offset(headers: Mapping[str, str]) -> int | None:
    text = headers.get(OFFSET_HEADER, "")
    return int(text) if text.isascii() and text.isdigit() else None
