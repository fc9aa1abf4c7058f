"""A registry in memory, as strict as the specification, that loses connections on request."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qs

import httpx

from holdfast.snapshots.bundle.endpoints import BlobDescriptor
from holdfast.snapshots.registry.http_client import HttpClient
from holdfast.snapshots.registry.reference import Reference
from holdfast.snapshots.registry.registry_failures import Backoff
from holdfast.snapshots.registry.registry_login import RegistryCredentials

Fault = Callable[[httpx.Request], httpx.Response | Exception | None]


def blob_of(content: bytes, media_type: str = "application/octet-stream") -> BlobDescriptor:
    return BlobDescriptor(media_type, f"sha256:{hashlib.sha256(content).hexdigest()}", len(content))


class _Transport(httpx.BaseTransport):
    """As a network: answers come as streams."""

    def __init__(self, registry: FakeRegistry) -> None:
        self._registry = registry

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        told = self._registry.handle(request)
        if told.is_stream_consumed:
            stream = httpx.ByteStream(b"" if request.method == "HEAD" else told.content)
            return httpx.Response(told.status_code, headers=told.headers, stream=stream)
        return told


class FakeRegistry:
    """`fault` is asked before each request whether it fails; `cut` keeps only a part of the received
    bytes."""

    def __init__(self) -> None:
        self.blobs: dict[str, bytes] = {}
        self.elsewhere: dict[str, dict[str, bytes]] = {}
        self.manifests: dict[str, tuple[str, bytes]] = {}
        self.uploads: dict[str, bytearray] = {}
        self.seen: list[str] = []
        self.authorizations: list[str | None] = []
        self.fault: Fault = lambda _request: None
        self.challenge = ""
        self.allowed: Callable[[str], bool] = lambda _header: True
        self.tokens: Callable[[httpx.Request], httpx.Response] | None = None
        self.slept: list[float] = []

    def client(
        self,
        reference: str = "registry.test/team/work:one",
        user: RegistryCredentials | None = None,
        **options: Any,
    ) -> HttpClient:
        patience = Backoff(attempts=4, first=0.25, sleep=self.slept.append)
        return HttpClient(
            Reference.parse(reference),
            find=lambda _host: user,
            patience=patience,
            transport=_Transport(self),
            **options,
        )

    def handle(self, request: httpx.Request) -> httpx.Response:
        request.read()
        self.seen.append(f"{request.method} {request.url.path}")
        self.authorizations.append(request.headers.get("authorization"))
        if request.url.path == "/token" and self.tokens:
            return self.tokens(request)
        broken = self.fault(request)
        if isinstance(broken, Exception):
            raise broken
        if broken is not None:
            return broken
        if self.challenge and not self.allowed(request.headers.get("authorization", "")):
            return httpx.Response(401, headers={"WWW-Authenticate": self.challenge})
        return self._answer(request)

    def cut(self, request: httpx.Request, received: int) -> Exception:
        """The connection is lost when this many bytes of the body have arrived."""
        upload = request.url.path.rpartition("/")[2]
        if request.method == "PATCH" and upload in self.uploads:
            self.uploads[upload] += request.content[:received]
        return httpx.WriteError("connection reset by peer")

    def _answer(self, request: httpx.Request) -> httpx.Response:
        path = request.url.path.removeprefix("/v2/")
        if "/blobs/uploads/" in path:
            return self._upload(request, path.rpartition("/")[2])
        if "/manifests/" in path:
            return self._manifest(request, path.rpartition("/")[2])
        content = self.blobs.get(path.rpartition("/")[2])
        if content is None:
            return httpx.Response(404, content=json.dumps({"errors": [{"code": "BLOB_UNKNOWN"}]}))
        if request.method == "HEAD":
            return httpx.Response(200, headers={"Content-Length": str(len(content))})
        start = int(request.headers.get("range", "bytes=0-").removeprefix("bytes=").rstrip("-"))
        headers = {"Content-Range": f"bytes {start}-{len(content) - 1}/{len(content)}"} if start else {}
        return httpx.Response(206 if start else 200, headers=headers, content=content[start:])

    def _manifest(self, request: httpx.Request, name: str) -> httpx.Response:
        if request.method == "PUT":
            kept = request.headers["content-type"], request.content
            self.manifests[name] = self.manifests[blob_of(request.content).digest] = kept
            return httpx.Response(201)
        if name not in self.manifests:
            return httpx.Response(404)
        kind, content = self.manifests[name]
        return httpx.Response(200, headers={"Content-Type": kind}, content=content)

    def _upload(self, request: httpx.Request, name: str) -> httpx.Response:
        query = parse_qs(request.url.query.decode())
        if request.method == "POST":
            if query.get("mount", [""])[0] in self.elsewhere.get(query.get("from", [""])[0], {}):
                self.blobs[query["mount"][0]] = self.elsewhere[query["from"][0]][query["mount"][0]]
                return httpx.Response(201)
            name = f"u{len(self.uploads)}"
            self.uploads[name] = bytearray()
            return self._stands(name, 202)
        if name not in self.uploads:
            return httpx.Response(404)
        if request.method == "DELETE":
            del self.uploads[name]
            return httpx.Response(204)
        if request.method == "GET":
            return self._stands(name, 204)
        body, upload = request.content, self.uploads[name]
        if request.method == "PATCH":
            start, _, end = request.headers["content-range"].partition("-")
            if int(start) != len(upload) or int(end) - int(start) + 1 != len(body):
                return httpx.Response(416)
            upload += body
            return self._stands(name, 202)
        upload += body
        digest = query["digest"][0]
        if blob_of(bytes(upload)).digest != digest:
            return httpx.Response(400, content=json.dumps({"errors": [{"code": "DIGEST_INVALID"}]}))
        self.blobs[digest] = bytes(self.uploads.pop(name))
        return httpx.Response(201)

    def _stands(self, name: str, status: int) -> httpx.Response:
        end = max(0, len(self.uploads[name]) - 1)
        where = {"Location": f"/v2/team/work/blobs/uploads/{name}?_state=x", "Range": f"0-{end}"}
        return httpx.Response(status, headers=where)
