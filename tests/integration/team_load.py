"""Two teams that work on one server at the same time, and try all the time to reach each other.

Each has a person, who signs in at an issuer and works with the page's key and a WebSocket, and agents with
access keys: one over HTTP, one over MCP, and one over the wire of E2B, by its unmodified client where that is
installed. All answers are searched for marks of the other team.
"""

from __future__ import annotations

import json
import os
import random
import secrets
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import anyio
import httpx
import httpx2
from mcp.client.client import Client
from mcp.client.streamable_http import streamable_http_client
from tests.integration.process_wire import Followed, framed
from tests.integration.served import Served
from tests.runtime.sign_in.real_issuer import Visitor
from websockets.exceptions import WebSocketException
from websockets.sync.client import connect

from holdfast.errors import (
    HoldfastError,
    NotPermitted,
    QuotaReached,
    ServerDenied,
    SessionBusy,
    SessionNotFound,
)
from holdfast.runtime.client.blocking.remote_holdfast import RemoteHoldfast
from holdfast.runtime.sign_in.sign_in_door import COOKIE

E2B_CLIENT = Path(__file__).parents[2] / ".doors" / "e2b-pinned" / "bin" / "python"
E2B_SCRIPT = """
import sys
from e2b import Sandbox
mark, foreign = sys.argv[1:]
box = Sandbox.create("base", timeout=120)
print("made", box.sandbox_id, flush=True)
try:
    print(box.commands.run(f"echo {mark} > /tmp/mark; cat /tmp/mark").stdout.strip())
    print("listed", [each.sandbox_id for each in Sandbox.list().next_items()])
    try:
        Sandbox.connect(foreign)
        print("REACHED")
    except Exception as error:
        print("refused", type(error).__name__)
finally:
    box.kill()
"""
REFUSED = (401, 403, 404)
HOST = "holdfast.test"
"""The name by which browsers reach the server, over TLS that a proxy in front of it would end."""
PATHS: tuple[tuple[str, str, dict[str, str] | None], ...] = (
    ("GET", "/v1/sessions/{id}", None),
    ("GET", "/v1/sessions/{id}/pulse", None),
    ("GET", "/v1/sessions/{id}/journal", None),
    ("POST", "/v1/sessions/{id}/exec", {"command": "cat /srv/mark"}),
    ("POST", "/v1/sessions/{id}/cells", {"code": "open('/srv/mark').read()"}),
    ("GET", "/v1/sessions/{id}/files/content?path=/srv/mark", None),
    ("POST", "/v1/sessions/{id}/snapshots", {}),
    ("DELETE", "/v1/sessions/{id}", None),
    ("GET", "/v1/snapshots/{snapshot}", None),
    ("POST", "/v1/snapshots/{snapshot}/restore", {}),
    ("GET", "/sandboxes/{id}", None),
    ("DELETE", "/sandboxes/{id}", None),
    ("GET", "/api/kernels", None),
)


class TeamUnderLoad:
    """A team: its person, keys and session, and the marks by which its content is known.

    Args:
        name: of the team.
        server: serves it.
        keys: of its agents, by the kind of each.
        person: the name of its person at the issuer, without `u-`.
    """

    def __init__(self, name: str, server: Served, keys: dict[str, str], person: str) -> None:
        self.name, self.server, self.keys, self.person = name, server, keys, person
        self.mark = f"mark-of-{name}-{secrets.token_hex(8)}"
        with RemoteHoldfast(server.url, token=keys["agent"]) as holdfast:
            session = holdfast.new("work", network="none")  # the name that the other team uses too
            session.exec(f"echo {self.mark} > /srv/mark; MARK={self.mark}")
            self.session, self.snapshot = session.id, session.snapshot().id


class Load:
    """The load on a server, with counts of its actions and attempts.

    Args:
        server: serves both teams.
        teams: by their names.
        seconds: how long.
        pace: the factor of all pauses; the load is lighter the larger it is.
        most: sessions of one user that can run at once.
    """

    def __init__(
        self, server: Served, teams: dict[str, TeamUnderLoad], seconds: float, pace: float, most: int
    ) -> None:
        self._server, self._teams, self._pace, self.most = server, teams, pace, most
        self._until = time.monotonic() + seconds
        self.done: Counter[str] = Counter()
        self.tried: Counter[str] = Counter()
        self.failed: Counter[str] = Counter()
        """Own work that a busy machine did not complete."""
        self.faults: list[str] = []
        self._lock = threading.Lock()

    def run(self) -> None:
        """Let everyone work until the end."""
        works: list[threading.Thread] = []
        for name, team in self._teams.items():
            (other,) = (each for each in self._teams.values() if each.name != name)
            works += [
                threading.Thread(target=self._whole, args=(work, team, other))
                for work in (self._person, self._agent, self._agent_of_mcp, self._agent_of_e2b)
            ]
        for each in works:
            each.start()
        for each in works:
            each.join()

    def _whole(self, work: Callable[..., None], team: TeamUnderLoad, other: TeamUnderLoad) -> None:
        try:
            while time.monotonic() < self._until:
                try:
                    work(team, other)
                except httpx.TimeoutException as error:  # and so it begins again
                    self._count(self.failed, f"{work.__name__}: {type(error).__name__}")
        except Exception as error:  # noqa: BLE001 - reported by whoever waits
            self.fault(f"{team.name} {work.__name__}: {type(error).__name__}: {error}")

    def fault(self, text: str) -> None:
        """Note what should not be, and end the load."""
        with self._lock:
            self.faults.append(text[:2000])
            self._until = 0.0

    def _count(self, counter: Counter[str], what: str) -> None:
        with self._lock:
            counter[what] += 1

    def _rounds(self, pause: float) -> Iterator[int]:
        number = 0
        while time.monotonic() < self._until:
            yield number
            number += 1
            time.sleep(random.uniform(0, pause * self._pace))

    @contextmanager
    def _http(self, team: TeamUnderLoad, other: TeamUnderLoad, **headers: str) -> Iterator[httpx.Client]:
        """Yield a client that looks for marks of the other team in each answer."""

        def look(answer: httpx.Response) -> None:
            if answer.headers.get("content-type", "").startswith(("application/connect", "text/event")):
                return
            if other.mark in answer.read().decode("utf-8", "replace"):
                self.fault(f"{team.name} saw {other.name}: {answer.request.method} {answer.request.url}")

        hooks: Any = {"response": [look]}
        url = self._server.url
        with httpx.Client(
            base_url=url, headers=headers, timeout=180, trust_env=False, event_hooks=hooks
        ) as found:
            yield found

    def _reach(self, client: httpx.Client, other: TeamUnderLoad, what: str, **headers: str) -> None:
        """Try one path of the other team, which must be refused."""
        method, path, body = random.choice(PATHS)
        there = path.format(id=other.session, snapshot=other.snapshot)
        answer = client.request(method, there, json=body, headers=headers)
        self._count(self.tried, what)
        if answer.status_code not in REFUSED and path != "/api/kernels":
            self.fault(
                f"{what} reached {method} {there} of {other.name}: {answer.status_code} {answer.text[:300]}"
            )

    def _signed_in(self, client: httpx.Client, team: TeamUnderLoad) -> str:
        """Sign the person of a team in by the issuer; return the cookie that the browser gets."""
        there = client.get("/sign-in/with/corp")
        begun = there.headers["set-cookie"].partition(";")[0]
        back = urlsplit(Visitor(f"u-{team.person}").follow(there.headers["location"]))
        answer = client.get(f"{back.path}?{back.query}", headers={"cookie": begun})
        if answer.status_code != 303:
            self.fault(f"the person of {team.name} could not sign in: {answer.status_code} {answer.text}")
        client.cookies.clear()
        (found,) = (
            each.partition(";")[0]
            for each in answer.headers.get_list("set-cookie")
            if each.startswith(f"{COOKIE}=")
        )
        self._count(self.done, "page: sign-in")
        return found

    def _page_key(self, client: httpx.Client, team: TeamUnderLoad, other: TeamUnderLoad, cookie: str) -> str:
        """Exchange the cookie for the key of a page; it opens no other path, and no team of others."""
        sent = {"cookie": cookie, "origin": f"https://{HOST}"}
        for path in ("/v1/sessions", f"/v1/sessions/{other.session}"):
            if client.get(path, headers=sent).status_code != 401:
                self.fault(f"the cookie of {team.name} opened {path}")
            self._count(self.tried, "page: cookie")
        for body, headers in (
            ({"team": other.name}, {}), ({}, {"holdfast-team": other.name}),
            ({"entry": "made-up", "team": other.name}, {}),
        ):  # fmt: skip
            got = client.post("/sign-in/key", json=body, headers={**sent, **headers})
            if got.status_code == 201 and got.json()["team"] != team.name:
                self.fault(f"the cookie of {team.name} gives a key of {got.json()['team']}")
            self._count(self.tried, "page: another team's key")
        got = client.post("/sign-in/key", json={}, headers=sent)
        if got.status_code != 201 or got.json()["team"] != team.name:
            self.fault(f"the page of {team.name} gets no key: {got.status_code} {got.text[:300]}")
        client.cookies.clear()
        self._count(self.done, "page: key")
        return str(got.json()["key"])

    def _person(self, team: TeamUnderLoad, other: TeamUnderLoad) -> None:
        """A page: the list, a terminal over a WebSocket, the journal; and the attempts of a script in it."""
        with self._http(team, other, host=HOST) as client:
            cookie, page, since = "", "", float("-inf")
            for number in self._rounds(0.3):
                if number % 500 == 0:
                    cookie = self._signed_in(client, team)
                if time.monotonic() > since + 240:  # a page renews its key before the ten minutes are over
                    page, since = self._page_key(client, team, other, cookie), time.monotonic()
                own = {"authorization": f"Bearer {page}"}
                listed = client.get("/v1/sessions", headers=own)
                if listed.status_code != 200 or other.session in listed.text:
                    self.fault(f"the page of {team.name} lists {listed.status_code} {listed.text[:300]}")
                self._count(self.done, "page: list")
                if number % 5 == 0:
                    self._type(team, page, team.session, f"echo typed $MARK {number}")
                    self._count(self.done, "page: terminal")
                self._reach(client, other, "page: ids", **own)
                self._reach(client, other, "page: team's header", **own, **{"holdfast-team": other.name})
                if number % 5 == 1:
                    if self._type(team, page, other.session, "cat /srv/mark") != "refused":
                        self.fault(f"a page of {team.name} typed in {other.name}")
                    self._count(self.tried, "page: terminals")

    def _type(self, team: TeamUnderLoad, key: str, session: str, line: str) -> str:
        """Type a line in a terminal over a WebSocket; return `refused` if that is not possible."""
        url = self._server.url.replace("http:", "ws:") + "/v1/channels"
        headers = {"authorization": f"Bearer {key}"}
        (other,) = (each for each in self._teams.values() if each is not team)
        with suppress(WebSocketException, TimeoutError), connect(
            url, additional_headers=headers, proxy=None, max_size=None
        ) as socket:  # fmt: skip
            socket.send(
                json.dumps({"open": 1, "call": "exec", "session": session, "args": {"command": line}})
            )
            while True:
                told = str(socket.recv(120))
                if other.mark in told:
                    self.fault(f"{team.name} saw {other.name} over a WebSocket: {told[:300]}")
                found = json.loads(told)
                if found.get("channel") == 1 and "error" in found:
                    code = found["error"]["code"]
                    return "refused" if code in ("session_not_found", "not_permitted") else code
                if found.get("channel") == 1 and ("result" in found or found.get("end")):
                    return "typed"
        return "cut"

    def _agent(self, team: TeamUnderLoad, other: TeamUnderLoad) -> None:
        """An agent over HTTP: commands, files, snapshots, copies; forged actors and foreign ids."""
        text = team.keys["agent"]
        forged = f"person:of-{other.name}"
        with ExitStack() as opened:
            holdfast = opened.enter_context(RemoteHoldfast(self._server.url, token=text, actor=forged))
            client = opened.enter_context(self._http(team, other, authorization=f"Bearer {text}"))
            work = holdfast.session("work")
            if work.id != team.session:
                self.fault(f"{team.name}'s work is {work.id}")
            for number in self._rounds(0.3):
                self._command(work, team)
                if number % 20 == 3:
                    self._copy(holdfast, team, number)
                self._across(holdfast, client, team, other)

    def _command(self, work: Any, team: TeamUnderLoad) -> None:
        try:
            said = work.exec("cat /srv/mark; echo $MARK").text.split()
            if said != [team.mark] * 2:
                self.fault(f"{team.name} reads {said}")
            self._count(self.done, "HTTP: command")
        except SessionBusy:  # by someone of the own team
            self._count(self.done, "HTTP: command of another was running")
        except HoldfastError as error:
            self._count(self.failed, f"HTTP: command: {error}")

    def _copy(self, holdfast: RemoteHoldfast, team: TeamUnderLoad, number: int) -> None:
        try:
            copy = holdfast.snapshot(team.snapshot).restore(f"copy-{number}")
            if copy.exec("cat /srv/mark").text.strip() != team.mark:
                self.fault(f"a copy of {team.name} has another mark")
            copy.remove()
            self._count(self.done, "HTTP: copy")
        except QuotaReached:
            self._count(self.done, "HTTP: copy over the quota")
        except HoldfastError as error:
            self._count(self.failed, f"HTTP: copy: {error}")

    def _across(
        self, holdfast: RemoteHoldfast, client: httpx.Client, team: TeamUnderLoad, other: TeamUnderLoad
    ) -> None:
        """Try ids, headers, keys, names and ports of the other team with an agent's key."""
        self._reach(client, other, "HTTP: ids")
        self._reach(client, other, "HTTP: team's header", **{"holdfast-team": other.name})
        half = team.keys["agent"][:16]
        self._reach(client, other, "HTTP: half a key", authorization=f"Bearer {half}_x")
        for ref in (other.session, other.session[:7]):
            with suppress(SessionNotFound, NotPermitted, ServerDenied):
                holdfast.session(ref).exec("true")
                self.fault(f"an agent of {team.name} ran a command in {other.name}")
            self._count(self.tried, "HTTP: library")
        host = f"8000-{other.session}.localhost:{self._server.port}"
        answer = client.get("/", headers={"host": host})
        self._count(self.tried, "HTTP: ports")
        unknown = answer.status_code == 502 and "The sandbox was not found" in answer.text
        if answer.status_code not in REFUSED and not unknown:
            self.fault(f"a port of {other.name}: {answer.status_code} {answer.text[:300]}")

    def _agent_of_mcp(self, team: TeamUnderLoad, other: TeamUnderLoad) -> None:
        """An agent of MCP: commands in its team's session, and in the other's by its id."""

        async def ask(tool: str, **arguments: Any) -> str:
            headers = {"authorization": f"Bearer {team.keys['mcp']}"}
            url = f"{self._server.url}/mcp"
            async with (
                httpx2.AsyncClient(headers=headers, timeout=180, trust_env=False) as http,
                Client(streamable_http_client(url, http_client=http)) as client,
            ):
                result = await client.call_tool(tool, arguments)
                return str(result.content[0].text)  # type: ignore[union-attr]

        for _ in self._rounds(1.0):
            said = anyio.run(partial(ask, "run", session="work", command="cat /srv/mark"))
            if "is running in the shell" in said:
                self._count(self.done, "MCP: command of another was running")
            elif team.mark not in said:
                self.fault(f"an agent of {team.name} reads {said[:300]}")
            self._count(self.done, "MCP: command")
            for where in (other.session, "work"):
                asking = partial(ask, "run", session=where, command="cat /srv/mark")
                said = anyio.run(asking)
                if other.mark in said:
                    self.fault(f"an agent of {team.name} read {other.name}: {said[:300]}")
                self._count(self.tried, "MCP: ids")

    def _agent_of_e2b(self, team: TeamUnderLoad, other: TeamUnderLoad) -> None:
        """A client of E2B: sandboxes of its own, and the other team's session as one."""
        key = team.keys["e2b"]
        with self._http(team, other, **{"x-api-key": key}) as client:
            for number in self._rounds(4.0):
                if number % 10 == 1 and E2B_CLIENT.exists():
                    self._unmodified_client(team, other)
                if number % 20 == 2:
                    self._crowd(client, team)
                answer = client.post("/v2/sandboxes", json={"templateID": "base", "timeout": 120})
                if answer.status_code == 429:
                    self._count(self.done, "E2B: over the quota")
                    if not answer.headers.get("retry-after"):
                        self.fault("429 without Retry-After")
                    continue
                if answer.status_code >= 500:
                    self._count(self.failed, f"E2B: sandbox: {answer.status_code} {answer.text[:200]}")
                    continue
                made = answer.json()
                try:
                    said = self._in_sandbox(
                        client, made["sandboxID"], made["envdAccessToken"], f"echo {team.mark}"
                    )
                    if team.mark.encode() not in said:
                        self.fault(f"a sandbox of {team.name} says {said!r}")
                    self._count(self.done, "E2B: sandbox")
                    self._reach(client, other, "E2B: ids")
                    # The token of an own sandbox with the id of a foreign one.
                    said = self._in_sandbox(client, other.session, made["envdAccessToken"], "cat /srv/mark")
                    if other.mark.encode() in said:
                        self.fault(f"a sandbox's token of {team.name} read {other.name}")
                    self._count(self.tried, "E2B: tokens")
                finally:
                    client.delete(f"/sandboxes/{made['sandboxID']}")

    def _crowd(self, client: httpx.Client, team: TeamUnderLoad) -> None:
        """Ask for more sandboxes at once than the quota of a user has; what was made is removed."""

        def one(_: int) -> httpx.Response:
            return client.post("/v2/sandboxes", json={"templateID": "base", "timeout": 120})

        with ThreadPoolExecutor(self.most + 2) as asking:
            answers = list(asking.map(one, range(self.most + 2)))
        for answer in answers:
            if answer.status_code == 429:
                self._count(self.done, "E2B: one of a crowd over the quota")
            elif answer.status_code == 201:
                self._count(self.done, "E2B: one of a crowd")
                client.delete(f"/sandboxes/{answer.json()['sandboxID']}")
            elif answer.status_code >= 500:
                self._count(self.failed, f"E2B: crowd: {answer.status_code} {answer.text[:200]}")
            else:
                self.fault(f"a crowd of {team.name}: {answer.status_code} {answer.text[:300]}")
        if not any(each.status_code == 429 for each in answers):
            self.fault(f"a crowd of {team.name} passed the quota: {len(answers)} sandboxes of {self.most}")

    def _in_sandbox(self, client: httpx.Client, sandbox: str, token: str, script: str) -> bytes:
        headers = {
            "e2b-sandbox-id": sandbox, "e2b-sandbox-port": "49983", "x-access-token": token,
            "content-type": "application/connect+json", "connect-protocol-version": "1",
        }  # fmt: skip
        body = framed({"process": {"cmd": "/bin/bash", "args": ["-c", script]}, "stdin": False})
        with client.stream("POST", "/process.Process/Start", content=body, headers=headers) as answer:
            if answer.status_code != 200:
                return answer.read()
            return Followed(answer).all().written["stdout"]

    def _unmodified_client(self, team: TeamUnderLoad, other: TeamUnderLoad) -> None:
        environment = {name: text for name, text in os.environ.items() if not name.startswith("E2B_")}
        url = self._server.url
        environment |= {"E2B_API_KEY": team.keys["e2b"], "E2B_API_URL": url, "E2B_SANDBOX_URL": url}
        command = [str(E2B_CLIENT), "-c", E2B_SCRIPT, team.mark, other.session]
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=300, check=False
        )
        if done.returncode and "RateLimit" in done.stderr:
            self._count(self.done, "E2B: client over the quota")
        elif done.returncode and "timed out" in done.stderr and "REACHED" not in done.stdout:
            self._count(self.failed, "E2B: client: timed out")  # after a minute, on a busy machine
        elif team.mark not in done.stdout or "refused" not in done.stdout or other.session in done.stdout:
            self.fault(f"E2B's client: {done.stdout[-500:]} {done.stderr[-500:]}")
        else:
            self._count(self.done, "E2B: unmodified client")
            self._count(self.tried, "E2B: unmodified client")


def figures(load: Load) -> str:
    """Return the actions and attempts, for people."""
    told = []
    for what, found in (("done", load.done), ("tried", load.tried), ("failed", load.failed)):
        parts = ", ".join(f"{name} {count}" for name, count in sorted(found.items()))
        told.append(f"{what} {sum(found.values())} ({parts})")
    return "; ".join(told)
