"""TLS around a client's sockets: the context that its settings ask for, a socket that `client.connection` can use, what a failure means.

A context is made once and used for all connections of the process, until one of its files changes. A key that is given as text goes through
memory, never through the disk.
"""

import os
import socket
import ssl
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from functools import lru_cache
from typing import Final

from millstream.address import Address
from millstream.buffer import Buffer
from millstream.client.errors import AuthenticationFailed, BrokerUnavailable, SecurityOptionError, broken
from millstream.client.security.tls_settings import Pem, TlsSettings
from millstream.errors import MillstreamError

_VERSIONS: Final = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
_WRONG_NAME: Final = frozenset({62, 63, 64})
"""OpenSSL: a mismatch of hostname, e-mail or IP address."""
_OUT_OF_DATE: Final = frozenset({9, 10})
"""OpenSSL: not yet valid, or expired."""
_NOT_TLS: Final = frozenset({"WRONG_VERSION_NUMBER", "UNKNOWN_PROTOCOL", "RECORD_LAYER_FAILURE", "PACKET_LENGTH_TOO_LONG", "HTTP_REQUEST"})
_JOINED_BYTES: Final = 64 * 1024
_MOST_SENT_BYTES: Final = 256 * 1024


class TlsSocket(ssl.SSLSocket):
    """A socket with the one call that Python's has not."""

    def sendmsg(self, buffers: Iterable[Buffer], *_: object) -> int:  # type: ignore[override]
        """Send the beginning of what the buffers hold: small ones together, so that they make one record of TLS, of a large one a part."""
        head: list[Buffer] = []
        size = 0
        for buffer in buffers:
            if size and size + len(buffer) > _JOINED_BYTES:
                break
            head.append(buffer)
            size += len(buffer)
        return self.send(memoryview(head[0])[:_MOST_SENT_BYTES] if len(head) == 1 else b"".join(head))


def wrap(plain: socket.socket, tls: TlsSettings, address: Address) -> socket.socket:
    """The same connection with TLS; `plain` is closed if that fails, and must not be used any more."""
    try:
        return context_for(tls).wrap_socket(plain, server_hostname=address.host)
    except BaseException as error:
        plain.close()
        if isinstance(error, OSError | ValueError):
            raise explain(error, address) from error
        raise


def explain(error: Exception, address: Address) -> MillstreamError:
    """Why there is no TLS with this broker, and what to do."""
    if isinstance(error, ssl.SSLCertVerificationError):
        if error.verify_code in _WRONG_NAME:
            return AuthenticationFailed(
                f"the certificate of the broker at {address} is for another name: connect by the name that is in it "
                f"({error.verify_message.rstrip('.')})"
            )
        if error.verify_code in _OUT_OF_DATE:
            return AuthenticationFailed(
                f"the certificate of the broker at {address}, or of who signed it, is out of date ({error.verify_message}): "
                "renew it there, or set the clock of this machine if that is wrong"
            )
        return AuthenticationFailed(
            f"the certificate of the broker at {address} is not trusted ({error.verify_message}): "
            "set ssl.ca.location to the certificate of the authority that signed it"
        )
    if isinstance(error, TimeoutError):
        return BrokerUnavailable(f"the broker at {address} did not finish the TLS handshake in time; does this port speak TLS?")
    if isinstance(error, ssl.SSLEOFError | ConnectionError) or getattr(error, "reason", "") in _NOT_TLS:
        return BrokerUnavailable(
            f"what answers at {address} does not speak TLS, or ended it: "
            "if it is a plain port, set security.protocol to PLAINTEXT or SASL_PLAINTEXT"
        )
    return broken(address, error)


def context_for(tls: TlsSettings) -> ssl.SSLContext:
    """The context of these settings; SecurityOptionError if a file or text is not what it should be."""
    paths = (tls.authorities.path, tls.certificate.path, tls.key.path)
    return _context(tls, tuple(os.stat(path).st_mtime_ns if path and os.path.exists(path) else 0 for path in paths))


@lru_cache(maxsize=16)
def _context(tls: TlsSettings, _changed: tuple[int, ...]) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.sslsocket_class = TlsSocket
    context.check_hostname = tls.checks_hostname
    context.verify_mode = ssl.CERT_REQUIRED if tls.checks_certificate else ssl.CERT_NONE
    context.minimum_version, context.maximum_version = _VERSIONS[tls.versions[0]], _VERSIONS[tls.versions[-1]]
    _trust(context, tls.authorities)
    if tls.certificate:
        _show(context, tls)
    return context


def _trust(context: ssl.SSLContext, authorities: Pem) -> None:
    if not authorities:
        context.load_default_certs()
        return
    try:
        if authorities.text:
            context.load_verify_locations(cadata=authorities.text)
        elif os.path.isdir(authorities.path):
            context.load_verify_locations(capath=authorities.path)
        else:
            context.load_verify_locations(cafile=authorities.path)
    except (OSError, ValueError) as error:
        raise SecurityOptionError("ssl.ca.location", f"no certificates can be read from {_name(authorities)}: {_why(error)}") from None


def _show(context: ssl.SSLContext, tls: TlsSettings) -> None:
    try:
        with ExitStack() as files:
            certificate, key = (files.enter_context(_file(pem)) for pem in (tls.certificate, tls.key))
            # Without a function OpenSSL would ask the terminal for the password of an encrypted key.
            context.load_cert_chain(certificate, key, password=lambda: tls.key_password)
    except (OSError, ValueError) as error:
        where = f"{_name(tls.certificate)} and {_name(tls.key)}"
        problem = f"certificate and key cannot be read from {where}: {_why(error)}; do they belong together, and is ssl.key.password right?"
        raise SecurityOptionError("ssl.certificate.location", problem) from None


@contextmanager
def _file(pem: Pem) -> Iterator[str]:
    if pem.path:
        yield pem.path
        return
    descriptor = os.memfd_create("pem")
    try:
        os.write(descriptor, pem.text.encode())
        yield f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)


def _name(pem: Pem) -> str:
    return pem.path or "the option"


def _why(error: Exception) -> str:
    return getattr(error, "strerror", None) or getattr(error, "reason", None) or str(error)
