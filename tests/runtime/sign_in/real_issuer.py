"""A certified issuer on loopback, a server that trusts it, and a person who fills in its forms."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import urljoin, urlsplit

import httpx
import uvicorn
from tests.runtime.doors.walked_doors import TOKEN

from holdfast.base.home import Home
from holdfast.runtime.cli.served_doors import ServedDoors
from holdfast.runtime.http_doors.door_sockets import DoorConnection
from holdfast.runtime.operations.context import no_progress
from holdfast.runtime.sign_in.issuer_settings import SignInSettings

ROOT = Path(__file__).parents[3]
HERE = "http://localhost:8420"
SECRET = "a secret of the client of this server"
PEOPLE: Mapping[str, Any] = {
    "u-ada": {"preferred_username": "ada", "groups": ["platform", "staff"]},
    "u-ben": {"preferred_username": "ben", "groups": ["staff"]},
    "u-eve": {"preferred_username": "ada", "groups": ["platform"]},  # under the name of someone else
    "u-out": {"preferred_username": "out", "groups": []},
    "u-ann": {"preferred_username": "ann", "groups": ["red"]},
    "u-bob": {"preferred_username": "bob", "groups": ["blue"]},
    "u-max": {"preferred_username": "max", "groups": ["red", "blue"]},
    "u-mia": {"preferred_username": "mia", "groups": ["red", "blue"]},
    "u-gus": {"preferred_username": "gus", "groups": ["green"]},  # a team that does not exist
}


class Issuer:
    """One issuer that runs."""

    def __init__(self, url: str) -> None:
        self.url = url

    def settings(self, name: str = "corp", **more: Any) -> dict[str, Any]:
        """Return the table of this issuer in a server's settings."""
        device = {"client": "terminals", "nonce": "optional"}
        rules = [
            {"claim": "groups", "value": "platform", "role": "maintainer"},
            {"claim": "groups", "value": "staff", "role": "viewer"},
        ]
        return {
            "name": name, "url": self.url, "client": "holdfast", "secret-variable": "ISSUER_SECRET",
            "scopes": ["openid", "profile"], "role": rules, "device": device,
        } | more  # fmt: skip


@contextmanager
def issuing(here: str = HERE, name: str = "corp") -> Iterator[Issuer]:
    """Run an issuer whose clients are the server at an address, and its terminals."""
    subprocess.run([ROOT / "setup" / "issuer"], check=True, capture_output=True, text=True)
    folder = ROOT / ".issuer"
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    device_grant = "urn:ietf:params:oauth:grant-type:device_code"
    backs = [f"{here}/sign-in/with/{each}/back" for each in (name, "other")]
    web = {"grant_types": ["authorization_code"], "response_types": ["code"], "redirect_uris": backs}
    device: dict[str, Any] = {"grant_types": [device_grant], "response_types": [], "redirect_uris": []}
    device |= {"token_endpoint_auth_method": "none", "application_type": "native"}
    clients = [
        {"client_id": "holdfast", "client_secret": SECRET, **web},
        {"client_id": "unrelated", "client_secret": SECRET, **web},
        {"client_id": "terminals", **device},
        {"client_id": "unrelated-terminals", **device},
    ]
    node = shutil.which("node") or str(folder / "bin" / "node")
    told = json.dumps({"clients": clients, "people": PEOPLE})
    process = subprocess.Popen(
        [node, "issuer.mjs", str(port), told],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={"PATH": os.environ["PATH"]},
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        yield Issuer(f"http://127.0.0.1:{port}")
    finally:
        process.terminate()
        process.wait(30)
        process.stdout.close()  # type: ignore[union-attr]


class _Forms(HTMLParser):
    """The first form of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.action: str | None = None
        self.fields: dict[str, str] = {}
        self._ended = False
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        if tag == "form" and self.action is None:
            self.action = found.get("action") or ""
        elif tag in ("input", "button") and found.get("name") and not self._ended:
            self.fields[str(found["name"])] = found.get("value") or ""

    def handle_endtag(self, tag: str) -> None:
        self._ended = self._ended or tag == "form"


class Visitor:
    """A person with a browser at an issuer."""

    def __init__(self, subject: str) -> None:
        self.subject = subject

    def follow(self, url: str, **fields: str) -> str:
        """Sign in and agree; return the address elsewhere to which one is sent, or the last page's text."""
        with httpx.Client(trust_env=False, timeout=30) as browser:
            return self._follow(browser, url, fields)

    def _follow(self, browser: httpx.Client, url: str, fields: Mapping[str, str]) -> str:
        place = urlsplit(url).netloc
        answer = browser.get(url)
        for _ in range(20):
            if answer.is_redirect:
                there = urljoin(str(answer.url), answer.headers["location"])
                if urlsplit(there).netloc != place:
                    return there
                answer = browser.get(there)
                continue
            form = _Forms(answer.text)
            if form.action is None:
                return answer.text
            sent = {**form.fields, **{key: value for key, value in fields.items() if key in form.fields}}
            for name, value in (("login", self.subject), ("password", "any")):
                if name in sent:
                    sent[name] = value
            sent.pop("abort", None)
            answer = browser.post(urljoin(str(answer.url), form.action), data=sent)
        raise AssertionError(re.sub(r"\s+", " ", answer.text)[:2000])


def doors_of(
    folder: Path,
    *issuers: dict[str, Any],
    url: str = HERE,
    at: Home | None = None,
    secret: str = "",
    **more: Any,
) -> ServedDoors:
    """Return the doors of a home in a folder; with `at` and `secret`, of a team."""
    settings = SignInSettings.model_validate({"url": url, "issuer": issuers, **more})
    home = at or Home(folder / "home").create()
    return ServedDoors(home, TOKEN, no_progress, sign_in=settings, audit=True, secret=secret)


@contextmanager
def listening(
    make: Callable[[str], ServedDoors], opened: socket.socket | None = None
) -> Iterator[tuple[str, ServedDoors]]:
    """Serve the handler that `make` returns for its address on a port of loopback, while the block runs."""
    opened = opened or socket.create_server(("127.0.0.1", 0))
    url = f"http://127.0.0.1:{opened.getsockname()[1]}"
    doors = make(url)
    config = uvicorn.Config(doors.app, log_config=None, access_log=False, lifespan="off", http=DoorConnection)
    server = uvicorn.Server(config)
    server.install_signal_handlers = lambda: None  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.run, kwargs={"sockets": [opened]})
    thread.start()
    try:
        yield url, doors
    finally:
        server.should_exit = True
        thread.join(30)
        opened.close()
        doors.callers.close()
