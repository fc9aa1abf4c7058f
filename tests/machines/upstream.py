"""A host on the internet, as far as a session can see: answers each request with itself, over HTTP or TLS."""

from __future__ import annotations

import base64
import json
import os
import ssl
import subprocess
import threading
from email import message_from_bytes
from email.policy import HTTP
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def do_GET(self) -> None:
        length = int(self.headers.get("content-length", 0))
        body = self.rfile.read(length) if length else self._chunks()
        asked = f"{self.requestline}\n{self.headers}{body.decode('utf-8', 'replace')}"
        self.server.asked.append(asked)
        if self.path.startswith("/repositories/"):
            self._git(body)
            return
        if self.path.startswith("/redirect?"):
            self.send_response(302)
            self.send_header("location", self.path.partition("?")[2])
            self._end(b"")
            return
        if self.path.startswith("/malformed"):
            line = self.headers.get("authorization", "")
            self.wfile.write(f"HTTP/1.1 200 OK\r\n{line}\r\n\r\n".encode())
            self.close_connection = True
            return
        self.send_response(200, f"OK {self.headers.get('authorization', '')}")
        self.send_header("x-echo", self.headers.get("authorization", ""))
        if self.path.startswith("/stream"):
            self._stream(asked.encode())
        elif self.path.startswith("/large"):
            self._end(asked.encode().ljust(3 << 20, b"."))
        else:
            self._end(json.dumps({"asked": asked}).encode())

    do_POST = do_PUT = do_GET  # noqa: N815

    def _git(self, body: bytes) -> None:
        """Answer as git-http-backend(1) does, to callers with the password."""
        _, _, encoded = self.headers.get("authorization", "").partition(" ")
        if base64.b64decode(encoded).decode().partition(":")[2] != self.server.password:
            self.send_response(401)
            self.send_header("www-authenticate", 'Basic realm="repositories"')
            self._end(b"")
            return
        path, _, query = self.path.removeprefix("/repositories").partition("?")
        told = {
            "GIT_PROJECT_ROOT": str(self.server.repositories),
            "GIT_HTTP_EXPORT_ALL": "1",
            "PATH_INFO": path,
            "QUERY_STRING": query,
            "REQUEST_METHOD": self.command,
            "REMOTE_USER": "somebody",
            "CONTENT_TYPE": self.headers.get("content-type", ""),
            "CONTENT_LENGTH": str(len(body)),
            "HTTP_CONTENT_ENCODING": self.headers.get("content-encoding", ""),
            "GIT_PROTOCOL": self.headers.get("git-protocol", ""),
        }
        command = ["git", "http-backend"]
        done = subprocess.run(command, input=body, capture_output=True, env=os.environ | told, check=False)
        head, _, content = done.stdout.partition(b"\r\n\r\n")
        fields = message_from_bytes(head, policy=HTTP)
        self.send_response(int(str(fields.get("status", "200")).split()[0]))
        for name in ("content-type", "cache-control"):
            if name in fields:
                self.send_header(name, fields[name])
        self._end(content)

    def _chunks(self) -> bytes:
        found = b""
        if self.headers.get("transfer-encoding") == "chunked":
            while size := int(self.rfile.readline(), 16):
                found += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
        return found

    def _end(self, body: bytes) -> None:
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _stream(self, body: bytes) -> None:
        """Send a byte at a time, so that every value is cut."""
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        for byte in body:
            self.wfile.write(b"1\r\n%c\r\n" % byte)
        self.wfile.write(b"0\r\n\r\n")

    def log_message(self, *_: Any) -> None:
        pass


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    asked: list[str]
    repositories: Path
    password: str

    def handle_error(self, *_: Any) -> None:
        pass


class Upstream:
    """A server that remembers every request as it came: its line, headers and body."""

    def __init__(self, address: str, certificate: dict[str, str] | None = None) -> None:
        self._server = _Server((address, 0), _Handler)
        self.asked: list[str] = []
        self._server.asked = self.asked
        if certificate is not None:
            context = self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate["certificate"], certificate["key"])
            # The handshake is made by the thread that serves the connection.
            self._server.socket = context.wrap_socket(
                self._server.socket, server_side=True, do_handshake_on_connect=False
            )
        self.port: int = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def serve_repositories(self, folder: Path, password: str) -> None:
        """Serve the repositories in a folder below `/repositories/`, to any user with a password."""
        self._server.repositories, self._server.password = folder, password

    def prefer(self, *protocols: str) -> None:
        """Choose the first of these that a client offers by ALPN (RFC 7301); if none, leave the extension
        out."""
        self._context.set_alpn_protocols(protocols)

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
