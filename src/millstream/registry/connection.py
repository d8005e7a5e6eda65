"""HTTP to a registry, blocking, with nothing but the standard library: connections that are kept, several addresses, retries.

A `Registries` is an ordered list of addresses that hold the same schemas. A request goes to the one that answered last; when that one
cannot be reached or says that it cannot serve (408, 429, 5xx), the next is tried, then all again after a pause, up to `retries` times.
Every request of the registry's API may be repeated: registering is idempotent, and a delete that happened is answered as such.

Threads may share an object: each request takes an idle connection or opens one. Nothing is shared over a fork, so a Spark worker or a
child process must make its own.
"""

import json
import random
import ssl
import threading
import time
from collections import deque
from collections.abc import Mapping, Sequence
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import Any, Final

from millstream.registry.addresses import RegistryAddress
from millstream.registry.errors import RegistryError, RegistryUnavailable, error_from_answer

CONTENT_TYPE: Final = "application/vnd.schemaregistry.v1+json"
RETRIABLE: Final = frozenset({408, 429, 500, 502, 503, 504})
MAX_ANSWER_BYTES: Final = 64 << 20
MAX_IDLE_CONNECTIONS: Final = 8
MAX_PAUSE_SECONDS: Final = 2.0


class Registry:
    """One registry, and its idle connections."""

    def __init__(self, place: RegistryAddress, *, timeout_s: float) -> None:
        self._place = place
        self._timeout_s = timeout_s
        self._idle: deque[HTTPConnection] = deque()

    def __str__(self) -> str:
        return str(self._place)

    def exchange(self, method: str, path: str, *, body: bytes | None, headers: Mapping[str, str]) -> tuple[int, Mapping[str, str], bytes]:
        """Status, headers and body of one answer; raises OSError or HTTPException if there is none."""
        sent = dict(headers)
        if self._place.authorization is not None:
            sent["Authorization"] = self._place.authorization
        while True:
            connection, is_used = self._take()
            try:
                connection.request(method, self._place.prefix + path, body=body, headers=sent)
                response = connection.getresponse()
                content = response.read(MAX_ANSWER_BYTES + 1)
            except (OSError, HTTPException):
                connection.close()
                if is_used:
                    # The server may have closed a connection that lay idle; that says nothing about the server.
                    continue
                raise
            if len(content) > MAX_ANSWER_BYTES:
                connection.close()
                raise HTTPException(f"the answer is bigger than {MAX_ANSWER_BYTES} bytes")
            if response.will_close or len(self._idle) >= MAX_IDLE_CONNECTIONS:
                connection.close()
            else:
                self._idle.append(connection)
            return response.status, {name.lower(): value for name, value in response.getheaders()}, content

    def close(self) -> None:
        """Close the idle connections."""
        while self._idle:
            self._idle.pop().close()

    def _take(self) -> tuple[HTTPConnection, bool]:
        try:
            return self._idle.pop(), True
        except IndexError:
            pass
        host, port = self._place.host, self._place.port
        if self._place.is_secure:
            return HTTPSConnection(host, port, timeout=self._timeout_s, context=ssl.create_default_context()), False
        return HTTPConnection(host, port, timeout=self._timeout_s), False


class Registries:
    """The addresses of one registry, and the way a request finds one that answers."""

    def __init__(self, places: Sequence[RegistryAddress], *, timeout_s: float = 10.0, retries: int = 3, pause_s: float = 0.1) -> None:
        self.addresses = [Registry(place, timeout_s=timeout_s) for place in places]
        self._retries = retries
        self._pause_s = pause_s
        self._first = 0
        self._lock = threading.Lock()

    def request(self, method: str, path: str, document: object = None) -> Any:
        """The JSON document that answers; raises the error that the registry answered, or `RegistryUnavailable`."""
        headers = {"Accept": f"{CONTENT_TYPE}, application/json"}
        body = None
        if document is not None:
            body = json.dumps(document).encode()
            headers["Content-Type"] = CONTENT_TYPE
        failures: dict[str, str] = {}
        refusal: RegistryError | None = None
        for attempt in range(self._retries + 1):
            if attempt:
                time.sleep(random.uniform(0.5, 1.0) * min(self._pause_s * 2**attempt, MAX_PAUSE_SECONDS))
            for address in self._in_order():
                try:
                    status, _, content = address.exchange(method, path, body=body, headers=headers)
                except (OSError, HTTPException) as error:
                    failures[str(address)] = getattr(error, "strerror", None) or str(error) or type(error).__name__
                    continue
                if status in RETRIABLE:
                    refusal = _error_of(status, content, address)
                    continue
                self._prefer(address)
                if status >= 300:
                    raise _error_of(status, content, address)
                return _document(content, address) if content else None
        if refusal is not None:
            raise refusal
        reasons = "; ".join(f"{address} ({reason})" for address, reason in failures.items())
        raise RegistryUnavailable(f"No schema registry answers: {reasons}. Is it running, and is the address right?")

    def close(self) -> None:
        """Close all connections."""
        for address in self.addresses:
            address.close()

    def _in_order(self) -> list[Registry]:
        with self._lock:
            first = self._first
        return self.addresses[first:] + self.addresses[:first]

    def _prefer(self, address: Registry) -> None:
        with self._lock:
            self._first = self.addresses.index(address)


def _document(content: bytes, address: Registry) -> Any:
    try:
        return json.loads(content)
    except ValueError as error:
        raise RegistryUnavailable(f"{address} is no schema registry: it answered {content[:80]!r}.") from error


def _error_of(status: int, content: bytes, address: Registry) -> RegistryError:
    try:
        document = json.loads(content)
        return error_from_answer(status, int(document["error_code"]), str(document["message"]))
    except (ValueError, KeyError, TypeError):
        return RegistryError(
            f"{address} answered with status {status}: {content[:200].decode(errors='replace').strip()}", status=status, code=status
        )
