"""A token server, as registries use them: checks a password, and signs a minute's permissions for its owner.

https://distribution.github.io/distribution/spec/auth/jwt/: the registry trusts a certificate, the token
carries it (`x5c`) and names the permitted actions and repositories.
"""

from __future__ import annotations

import base64
import json
import secrets
import threading
import time
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any
from urllib.parse import parse_qs, urlsplit

import jwt
from cryptography.hazmat.primitives.serialization import Encoding
from tests.machines.certificates import Authority

SERVICE = "registry of the tests"
ISSUER = "token server of the tests"


class TokenServer:
    """A server of tokens on a port of 127.0.0.1 while it is open.

    `asked` are the scopes of each request so far. Tokens end `lifetime` seconds after they were made.
    """

    def __init__(self, user: str, password: str, folder: Path, *, lifetime: int = 60) -> None:
        self.user, self.password, self.lifetime = user, password, lifetime
        self.asked: list[list[str]] = []
        authority = Authority(folder, ISSUER)
        self.certificate, self._key = authority.certificate, authority.key
        self._der = authority.root.public_bytes(Encoding.DER)
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()

    @property
    def realm(self) -> str:
        """The address for token requests."""
        return f"http://127.0.0.1:{self._http.server_address[1]}/token"

    def config(self) -> dict[str, Any]:
        """Return the part of a registry's configuration that makes it ask for tokens of this server."""
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
        """Return the server's answer to a known user."""
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
                """Print nothing."""

        return Handler
