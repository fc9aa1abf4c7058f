"""A host that notices are sent to, as a push service or a webhook, and what a browser shows of them."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

SHOWN = """async () => {
  const registration = await navigator.serviceWorker.getRegistration("/page/notice-worker.js");
  return (await registration.getNotifications()).map(each => [each.title, each.body]);
}"""
REGISTERED = """async () => {
  const made = await navigator.serviceWorker.register("/page/notice-worker.js");
  const coming = made.installing || made.waiting;
  if (coming) await new Promise(done => {
    coming.onstatechange = () => coming.state === "activated" && done();
  });
  return Boolean(made.active);
}"""
CLICKED = """async () => {
  const [notification] = await self.registration.getNotifications();
  self.dispatchEvent(new NotificationEvent("notificationclick", {notification}));
}"""


class Post:
    """A host that keeps what it is sent, and its URL."""

    def __init__(self) -> None:
        self.got: list[tuple[str, dict[str, str], bytes]] = []
        post = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                fields = {name.lower(): value for name, value in self.headers.items()}
                post.got.append((self.path, fields, body))
                self.send_response(201)
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def at(self, path: str) -> list[tuple[dict[str, str], bytes]]:
        return [(fields, body) for where, fields, body in self.got if where == path]

    def kinds(self, path: str) -> list[str]:
        return [json.loads(body)["kind"] for _, body in self.at(path)]
