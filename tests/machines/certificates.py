"""An authority that signs certificates for the tests, trusted by nothing else."""

from __future__ import annotations

import ipaddress
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


class Authority:
    """An authority that keeps its own and issued certificates in a folder."""

    def __init__(self, folder: Path, name: str = "authority of the tests") -> None:
        self._folder = folder
        self.key = ec.generate_private_key(ec.SECP256R1())
        self._name = _named(name)
        self.root = _builder(self._name, self._name, self.key).sign(self.key, hashes.SHA256())
        self.certificate = folder / "authority.pem"
        self.certificate.write_bytes(self.root.public_bytes(serialization.Encoding.PEM))

    def issue(self, address: str) -> dict[str, str]:
        """Issue a certificate for an address; return the paths of it and its key, as a registry
        needs them.
        """
        return self._issue(address, x509.IPAddress(ipaddress.ip_address(address)), "server")

    def issue_name(self, name: str) -> dict[str, str]:
        """Issue one for the name of a host."""
        return self._issue(name, x509.DNSName(name), name)

    def _issue(self, subject: str, known: x509.GeneralName, file: str) -> dict[str, str]:
        key = ec.generate_private_key(ec.SECP256R1())
        names = x509.SubjectAlternativeName([known])
        made = _builder(_named(subject), self._name, key, root=False).add_extension(names, critical=False)
        certificate, private = self._folder / f"{file}.pem", self._folder / f"{file}.key"
        certificate.write_bytes(made.sign(self.key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))
        private.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
        )
        return {"certificate": str(certificate), "key": str(private)}


def _named(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, *, root: bool = True
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=root, path_length=0 if root else None), critical=True)
    )
