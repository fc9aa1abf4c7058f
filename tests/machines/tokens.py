"""A token server, as registries use them: checks a password, and signs what its owner may do for a minute.

https://distribution.github.io/distribution/spec/auth/jwt/: the registry trusts a certificate, the token
carries it (`x5c`) and says which actions on which repositories it is for.
"""

from __future__ import annotations

import base64
import json
import secrets
import threading
import time
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any
from urllib.parse import parse_qs, urlsplit

import jwt
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

SERVICE = "registry of the tests"
ISSUER = "token server of the tests"


class TokenServer:
    """Serves tokens on a port of 127.0.0.1 while it is open.

    `asked` are the scopes of each request so far. Tokens end `lifetime` seconds after they were made, but
    never later than `revoke` was called: from then on the registry refuses those made before.
    """

    def __init__(self, user: str, password: str, folder: Path, *, lifetime: int = 60) -> None:
        self.user, self.password, self.lifetime = user, password, lifetime
        self.asked: list[list[str]] = []
        self.certificate = folder / "token-signer.pem"
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._der = _certificate(self._key)
        self.certificate.write_bytes(_pem(self._der))
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()

    @property
    def realm(self) -> str:
        """Where tokens are got."""
        return f"http://127.0.0.1:{self._http.server_address[1]}/token"

    def config(self) -> dict[str, Any]:
        """The part of a registry's configuration that makes it ask for tokens of this server."""
        return {
            "token": {
                "realm": self.realm,
                "service": SERVICE,
                "issuer": ISSUER,
                "rootcertbundle": str(self.certificate),
            }
        }

    def __enter__(self) -> TokenServer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()

    def token(self, scopes: list[str]) -> dict[str, Any]:
        """What the server answers to somebody it knows."""
        now = int(time.time())
        access = []
        for scope in scopes:
            kind, name, actions = scope.split(":", 1)[0], *scope.split(":", 1)[1].rsplit(":", 1)
            access.append({"type": kind, "name": name, "actions": actions.split(",")})
        claims = {
            "iss": ISSUER,
            "sub": self.user,
            "aud": SERVICE,
            "iat": now,
            "nbf": now - 10,
            "exp": now + self.lifetime,
            "jti": secrets.token_hex(8),
            "access": access,
        }
        chain = [base64.b64encode(self._der).decode()]
        signed = jwt.encode(claims, self._key, algorithm="ES256", headers={"x5c": chain})
        issued = datetime.fromtimestamp(now, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        return {"token": signed, "access_token": signed, "expires_in": self.lifetime, "issued_at": issued}

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        server = self
        expected = base64.b64encode(f"{self.user}:{self.password}".encode()).decode()

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                asked = parse_qs(urlsplit(self.path).query)
                server.asked.append([one for each in asked.get("scope", []) for one in each.split()])
                known = self.headers.get("Authorization") == f"Basic {expected}"
                answer = server.token(server.asked[-1]) if known else {"details": "incorrect password"}
                body = json.dumps(answer).encode()
                self.send_response(200 if known else 401)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, _form: str, *_args: object) -> None:
                """Say nothing."""

        return Handler


def _certificate(key: ec.EllipticCurvePrivateKey) -> bytes:
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, ISSUER)])
    now = datetime.now(UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    )
    return builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.DER)


def _pem(der: bytes) -> bytes:
    return x509.load_der_x509_certificate(der).public_bytes(serialization.Encoding.PEM)
