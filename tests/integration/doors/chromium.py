"""A real browser, driven by its own protocol (Chrome DevTools): pages of any origin, and the answers they
received.

The document of a page is put in its place whatever its host would answer. So a page can have a name that
its owner has since pointed to this machine (DNS rebinding).
"""

from __future__ import annotations

import base64
import json
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from shutil import which
from typing import Any

from websockets.sync.client import ClientConnection, connect

from holdfast.base import polling

PATIENCE = 120
REBOUND = "evil.test"
"""A name of an attacker, which leads to this machine."""
OPTIONS = (
    *("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"),
    *("--remote-debugging-port=0", "--no-proxy-server", f"--host-resolver-rules=MAP {REBOUND} 127.0.0.1"),
    # What newer browsers add: the server must do without.
    "--disable-features=LocalNetworkAccessChecks,BlockInsecurePrivateNetworkRequests,HttpsUpgrades",
)


class Page:
    """One tab."""

    def __init__(self, line: ClientConnection) -> None:
        self._line, self._numbers = line, count(1)
        self._documents: dict[str, str] = {}
        self.statuses: list[tuple[str, int]] = []
        """URLs that were asked for, and the statuses of their answers."""
        target = self._call("Target.createTarget", url="about:blank")["targetId"]
        self._target = target
        self._session = self._call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        self.registrations: dict[str, str] = {}
        """Service workers, by their scopes: the ids by which the browser knows them."""
        for domain in ("Page", "Network", "Runtime", "ServiceWorker"):
            self._call(f"{domain}.enable")

    def open(self, url: str, document: str | None = None) -> None:
        """Go to a page; `document` is put in its place."""
        if document is not None:
            self._documents[url] = document
        patterns = [{"urlPattern": each} for each in self._documents]
        self._call("Fetch.enable", patterns=patterns)
        failed = self._call("Page.navigate", url=url).get("errorText")
        assert failed is None, failed

    def run(self, script: str, *arguments: object) -> Any:
        """Return the result of an async function in the page, called with these arguments."""
        words = ", ".join(map(json.dumps, arguments))
        found = self._call(
            "Runtime.evaluate",
            expression=f"({script})({words})",
            awaitPromise=True,
            returnByValue=True,
            userGesture=True,
        )
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    def until(self, script: str, *arguments: object, seconds: float = PATIENCE) -> None:
        """Wait until a function in the page, called with these arguments, gives something true."""
        assert polling.until(lambda: bool(self.run(script, *arguments)), seconds, 0.1), (script, arguments)

    def write(self, text: str) -> None:
        """Type text where the focus is."""
        self._call("Input.insertText", text=text)

    def enter(self) -> None:
        """Press the Enter key."""
        key = {"key": "Enter", "code": "Enter", "windowsVirtualKeyCode": 13}
        self._call("Input.dispatchKeyEvent", type="keyDown", text="\r", **key)
        self._call("Input.dispatchKeyEvent", type="keyUp", **key)

    def size(self, width: int, height: int) -> None:
        """Give the page the size of a screen, in its pixels."""
        self._call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=True
        )

    def in_worker(self, script: str) -> Any:
        """Return the result of an async function in the only service worker."""
        targets = self._call("Target.getTargets")["targetInfos"]
        (worker,) = (each["targetId"] for each in targets if each["type"] == "service_worker")
        own, self._session = (
            self._session,
            self._call("Target.attachToTarget", targetId=worker, flatten=True)["sessionId"],
        )
        try:
            return self.run(script)
        finally:
            self._session = own

    def allow_notifications(self, origin: str) -> None:
        """Answer for the person that pages of an origin can show notifications."""
        self._call("Browser.grantPermissions", permissions=["notifications"], origin=origin)

    def push(self, origin: str, message: bytes) -> None:
        """Let the only service worker of this origin have a message, as if a push service had sent it."""
        self.until("() => true")  # what has been reported so far is read
        (registration,) = self.registrations.values()
        self._call(
            "ServiceWorker.deliverPushMessage",
            origin=origin,
            registrationId=registration,
            data=message.decode(),
        )

    def close(self) -> None:
        """Close the tab."""
        self._call("Target.closeTarget", targetId=self._target)

    def cookies(self, url: str) -> list[str]:
        """Return the names of the cookies that would be sent to an address."""
        return [each["name"] for each in self._call("Network.getCookies", urls=[url])["cookies"]]

    def _call(self, method: str, **params: Any) -> dict[str, Any]:
        number = next(self._numbers)
        asked: dict[str, Any] = {"id": number, "method": method, "params": params}
        self._line.send(json.dumps(asked | self._where(method)))
        while True:
            told = json.loads(self._line.recv(PATIENCE))
            if told.get("id") == number:
                assert "error" not in told, (method, told["error"])
                return dict(told["result"])
            self._happened(told)

    def _where(self, method: str) -> dict[str, str]:
        return {} if method.startswith(("Target.", "Browser.")) else {"sessionId": self._session}

    def _happened(self, told: Mapping[str, Any]) -> None:
        params = told.get("params", {})
        if told.get("method") == "Fetch.requestPaused":
            body = base64.b64encode(self._documents[params["request"]["url"]].encode()).decode()
            heads = [{"name": "content-type", "value": "text/html"}]
            answer = {"requestId": params["requestId"], "responseCode": 200, "body": body}
            self._send("Fetch.fulfillRequest", **answer, responseHeaders=heads)
        elif told.get("method") == "Network.responseReceived":
            self.statuses.append((params["response"]["url"], params["response"]["status"]))
        elif told.get("method") == "ServiceWorker.workerRegistrationUpdated":
            for each in params["registrations"]:
                self.registrations[each["scopeURL"]] = each["registrationId"]
        elif told.get("method") == "Network.webSocketHandshakeResponseReceived":
            self.statuses.append(("socket", params["response"]["status"]))

    def _send(self, method: str, **params: Any) -> None:
        """Ask for something whose answer does not matter."""
        asked = {"id": next(self._numbers), "method": method, "params": params}
        self._line.send(json.dumps(asked | self._where(method)))


@contextmanager
def browser(folder: Path, *options: str) -> Iterator[ClientConnection]:
    """Run a browser with a profile and options of its own, and yield the line to it."""
    program = which("chromium")
    assert program, "there is no browser: `make test-doors` installs it"
    command = [program, *OPTIONS, *options, f"--user-data-dir={folder}", "about:blank"]
    with (folder.parent / "browser.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        told = folder / "DevToolsActivePort"
        assert polling.until(lambda: told.exists() and "\n/" in told.read_text(), PATIENCE, 0.1)
        port, path = told.read_text().split()
        with connect(f"ws://127.0.0.1:{port}{path}", max_size=None, proxy=None, ping_interval=None) as line:
            yield line
    finally:
        process.terminate()
        process.wait(30)
