"""The certificate authority of a home, by which the gateway speaks for the hosts of secrets, and the trust in
it.

Its key never enters a session. Only sessions with secrets trust its certificate: they find it, together with
the roots of their image, in a folder of the host that is mounted read-only.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.base.home import Home
from holdfast.errors import StoreError
from holdfast.runtime.egress.vault import owner, write_private

if TYPE_CHECKING:
    from holdfast.engine.engine import Engine

_SYSTEM = "/etc/ssl/certs/ca-certificates.crt"
_YEARS = 10


def ensure(home: Home) -> Path:
    """Return the folder with the authority, made if it is missing; the gateway reads its key.

    Raises:
        StoreError: it cannot be made.
    """
    folder = home.gateway / "authority"
    if not (folder / "mitmproxy-ca.pem").exists():
        key, certificate = _made(home)
        write_private(folder / "certificate.pem", certificate, owner())
        write_private(folder / "mitmproxy-ca.pem", key + certificate, owner())
    return folder


def folder(home: Home, session_id: str) -> Path:
    """Return the folder that a session mounts; it must exist before its container is made.

    Raises:
        StoreError: it cannot be made.
    """
    made = home.gateway / "trust" / session_id
    try:
        for above in (made.parent.parent, made.parent):
            above.mkdir(mode=0o700, exist_ok=True)
        made.mkdir(mode=0o755, exist_ok=True)  # programs of any user in the session read it
    except OSError as error:
        raise StoreError(f"cannot make {made}: {error.strerror or error}") from error
    return made


def install_roots(engine: Engine, home: Home, session_id: str, container_id: str) -> None:
    """Write the roots that a session trusts: those of its image, and the authority.

    Raises:
        StoreError, EngineError: the roots cannot be read or written.
    """
    ours = (ensure(home) / "certificate.pem").read_text()
    theirs = engine.files.read(container_id, _SYSTEM).decode("ascii", "replace")
    path = folder(home, session_id) / "roots.pem"
    write_private(path, theirs + ("" if theirs.endswith("\n") else "\n") + ours)
    path.chmod(0o644)  # programs of any user in the session read it


def _made(home: Home) -> tuple[str, str]:
    """Return a new key and certificate, as PEM."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import rsa

    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, f"Holdfast gateway {home.digest}")])
    public = key.public_key()
    now = datetime.now(UTC)
    usage = x509.KeyUsage(False, False, False, False, False, True, True, False, False)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(public)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=2))
        .not_valid_after(now + timedelta(days=365 * _YEARS))
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.TraditionalOpenSSL,
        serialization.NoEncryption(),
    )
    return private.decode(), certificate.public_bytes(serialization.Encoding.PEM).decode()
