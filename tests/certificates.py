"""Certificates for tests: an authority of their own, and what it signs. Skips where the package `cryptography` is not installed."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

pytest.importorskip("cryptography", reason="the package cryptography is not installed, which makes the tests' certificates")

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

KEY_PASSWORD = "of the key"


class Authority:
    """Signs certificates; its own is the file `ca`."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _name("authority of the tests")
        certificate = _builder(self._name, self._name, self._key).add_extension(
            x509.BasicConstraints(ca=True, path_length=None), critical=True
        )
        self.ca = directory / "ca.pem"
        self.ca.write_bytes(certificate.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))

    def issue(self, name: str, *, password: str | None = None, days: int = 1) -> Path:
        """A certificate for a host or client of this name: one PEM file with the key first, encrypted if there is a password."""
        key = ec.generate_private_key(ec.SECP256R1())
        names = x509.SubjectAlternativeName([x509.DNSName(name)])
        builder = _builder(_name(name), self._name, key, days=days).add_extension(names, critical=False)
        certificate = builder.sign(self._key, hashes.SHA256())
        encryption = serialization.BestAvailableEncryption(password.encode()) if password else serialization.NoEncryption()
        path = self.directory / f"{name}.pem"
        path.write_bytes(
            key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption)
            + certificate.public_bytes(serialization.Encoding.PEM)
            + self.ca.read_bytes()
        )
        return path


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _builder(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, *, days: int = 1) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=2))
        .not_valid_after(now + timedelta(days=days))
    )
