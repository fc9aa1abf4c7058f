"""A server of a session with pages for a browser; it listens at two ports, starting with its argument."""

from __future__ import annotations

import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

WORKER = b"""
self.addEventListener("install", () => self.skipWaiting());
self.addEventListener("activate", event => event.waitUntil(self.clients.claim()));
self.addEventListener("fetch", event => event.respondWith(new Response("stolen")));
"""


class Pages(BaseHTTPRequestHandler):
    """`/seen` tells the headers of its request, `/worker.js` is a service worker, all else an empty page."""

    def do_GET(self) -> None:
        self.send_response(200)
        kind, body = "text/html", b"<body></body>"
        if self.path == "/seen":
            headers = {name.lower(): value for name, value in self.headers.items()}
            kind, body = "application/json", json.dumps(headers).encode()
        elif self.path == "/worker.js":
            kind, body = "text/javascript", WORKER
        for cookie in ("own=1", "wide=1; Domain=localhost", f"path=1; Path=/; Domain={self.headers['host']}"):
            self.send_header("Set-Cookie", cookie)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def main() -> None:
    """Serve."""
    first = int(sys.argv[1])
    for port in (first, first + 1):
        server = ThreadingHTTPServer(("127.0.0.1", port), Pages)
        threading.Thread(target=server.serve_forever).start()


if __name__ == "__main__":
    main()
