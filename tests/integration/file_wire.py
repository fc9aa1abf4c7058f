"""A client of the wire for files of one sandbox, of httpx and nothing else."""

from __future__ import annotations

import base64
import hashlib
import json
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlencode

import httpx
from tests.integration.served import Served

from holdfast.runtime.e2b.sandbox_access import SandboxTokens

_HEAD = struct.Struct(">BI")
OCTETS = {"content-type": "application/octet-stream"}


class FileWire:
    """Requests about files of one sandbox, with its token."""

    def __init__(self, server: Served, sandbox: str) -> None:
        self.server, self.sandbox = server, sandbox
        self.tokens = SandboxTokens(server.token)
        headers = {
            "e2b-sandbox-id": sandbox,
            "e2b-sandbox-port": "49983",
            "x-access-token": self.tokens.access(sandbox),
        }
        self.client = httpx.Client(base_url=server.url, headers=headers, timeout=120, trust_env=False)
        self.anyone = httpx.Client(base_url=server.url, timeout=120, trust_env=False)

    def close(self) -> None:
        self.client.close()
        self.anyone.close()

    def ask(self, method: str, status: int = 200, **body: Any) -> Any:
        """Return the answer to an RPC, which must have this status."""
        answer = self.client.post(f"/filesystem.Filesystem/{method}", json=body)
        assert answer.status_code == status, (answer.status_code, answer.text[:2000])
        return answer.json()

    def code(self, method: str, **body: Any) -> str:
        """Return the code of the error that an RPC answers with."""
        answer = self.client.post(f"/filesystem.Filesystem/{method}", json=body)
        found = answer.json()
        assert answer.status_code >= 400, found
        assert found["message"].startswith("cannot "), found
        return str(found["code"])

    def get(self, path: str, headers: dict[str, str] | None = None, **params: Any) -> httpx.Response:
        return self.client.get("/files", params={"path": path, **params}, headers=headers)

    def put(
        self, path: str, content: Any, headers: dict[str, str] | None = None, **params: Any
    ) -> httpx.Response:
        return self.client.post(
            "/files", params={"path": path, **params}, content=content, headers=OCTETS | (headers or {})
        )

    @contextmanager
    def watching(self, **body: Any) -> Iterator[Iterator[tuple[bool, dict[str, Any]]]]:
        """Yield the messages of a watch: whether it is the last, and its content."""
        request = json.dumps(body).encode()
        headers = {"content-type": "application/connect+json", "keepalive-ping-interval": "1"}
        headers |= {"connect-timeout-ms": str(body.pop("milliseconds", 60_000))}
        with self.client.stream(
            "POST",
            "/filesystem.Filesystem/WatchDir",
            content=_HEAD.pack(0, len(request)) + request,
            headers=headers,
        ) as answer:
            assert answer.status_code == 200, answer.read()
            yield self._messages(answer.iter_raw())

    @staticmethod
    def _messages(parts: Iterator[bytes]) -> Iterator[tuple[bool, dict[str, Any]]]:
        left = bytearray()
        for part in parts:
            left += part
            while len(left) >= _HEAD.size and len(left) >= _HEAD.size + _HEAD.unpack_from(left)[1]:
                flags, size = _HEAD.unpack_from(left)
                yield flags == 2, json.loads(left[_HEAD.size : _HEAD.size + size])
                del left[: _HEAD.size + size]

    def signed(
        self, path: str, operation: str = "read", user: str = "", ends: int | None = None, of: str = ""
    ) -> str:
        """Return an address that the token of a sandbox has signed."""
        words = [
            path,
            operation,
            user,
            self.tokens.access(of or self.sandbox),
            *([] if ends is None else [str(ends)]),
        ]
        digest = hashlib.sha256(":".join(words).encode()).digest()
        signature = "v1_" + base64.b64encode(digest).decode().rstrip("=")
        query = {"path": path, "signature": signature}
        if user:
            query["username"] = user
        if ends is not None:
            query["signature_expiration"] = str(ends)
        return f"/files?{urlencode(query)}"
