"""Web pages in a real browser: of other sites, of names led here, and of ports of sandboxes."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.integration.conftest import Cli
from tests.integration.control_wire import control_wire
from tests.integration.doors.chromium import REBOUND, Page, browser
from tests.integration.served import Served, serving
from websockets.sync.client import ClientConnection

from holdfast.base import polling
from holdfast.base.home import Home
from holdfast.runtime.api.controller import Holdfast

pytestmark = pytest.mark.timeout(600)

PROGRAM = Path(__file__).parents[2] / "inside" / "port_pages.py"
FIRST = 8000
# Each way in which a page can send something to another place, and what it can see of the answer.
ATTACKS = """async (target, path, token) => {
  const found = {}, url = target + path, kind = "content-type";
  const body = JSON.stringify({name: "evil"});
  const read = async how => {
    const answer = await fetch(url, how);
    return `${answer.type} ${answer.status} ${await answer.text()}`;
  };
  const frame = make => new Promise(done => {
    const place = document.createElement("iframe");
    place.name = "f" + Math.random();
    document.body.append(place);
    let seen = 0;
    const look = () => {
      try { return place.contentDocument.body.innerText; } catch (error) { return "closed"; }
    };
    place.onload = () => { if (make === null || seen++) done(look()); };
    if (make === null) place.src = url; else setTimeout(() => { seen = 1; make(place.name); }, 50);
  });
  const form = enctype => frame(name => {
    const made = document.createElement("form");
    Object.assign(made, {method: "POST", action: url, enctype, target: name});
    const field = document.createElement("input");
    field.name = '{"name": "evil", "x": "'; field.value = '"}';
    made.append(field); document.body.append(made); made.submit();
  });
  const tag = (name, key) => new Promise(done => {
    const made = document.createElement(name);
    made.onload = () => done("loaded"); made.onerror = () => done("failed");
    made[key] = url; document.body.append(made);
  });
  const socket = (path, offered) => new Promise(done => {
    const made = new WebSocket(target.replace("http", "ws") + path, offered);
    made.onopen = () => done("open"); made.onerror = () => done("failed");
  });
  const ways = {
    "read": () => read(),
    "read with cookies": () => read({credentials: "include"}),
    "unread": () => read({mode: "no-cors", credentials: "include"}),
    "JSON as text": () => read({mode: "no-cors", method: "POST", body, headers: {[kind]: "text/plain"}}),
    "JSON": () => read({method: "POST", body, headers: {[kind]: "application/json"}}),
    "with a token": () => read({headers: {authorization: "Bearer " + token}}),
    "POST with a token": () => read({method: "POST", body, headers: {authorization: "Bearer " + token}}),
    "DELETE": () => read({method: "DELETE"}),
    "beacon": async () => String(navigator.sendBeacon(url, body)),
    "form": () => form("application/x-www-form-urlencoded"),
    "form of text": () => form("text/plain"),
    "form of files": () => form("multipart/form-data"),
    "frame": () => frame(null),
    "script": () => tag("script", "src"),
    "picture": () => tag("img", "src"),
    "events": () => new Promise(done => {
      const made = new EventSource(url);
      made.onopen = () => done("open"); made.onerror = () => { made.close(); done("failed"); };
    }),
    "socket": () => socket("/v1/channels"),
    "socket with a token": () => socket("/v1/channels", ["bearer." + token]),
    "socket of MCP": () => socket("/mcp", ["bearer." + token]),
  };
  for (const [name, way] of Object.entries(ways)) {
    try { found[name] = await way(); } catch (error) { found[name] = "failed"; }
  }
  return found;
}"""
REFUSALS = (401, 403, 404, 405, 421)


@pytest.fixture(scope="module")
def line(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClientConnection]:
    with browser(tmp_path_factory.mktemp("browser") / "profile") as found:
        yield found


@pytest.fixture(scope="module")
def server(make_cli: Callable[[Home], Cli], shared_hf: Holdfast, shared_home: Home) -> Iterator[Served]:
    with serving(make_cli(shared_home), shared_home) as found:
        yield found


def origins(port: int) -> dict[str, str]:
    """Return pages that are not allowed to use a server at a port of this machine, by kind."""
    return {
        "another site": f"http://{REBOUND}:{port + 1 if port < 65535 else port - 1}/page",
        "a name led here": f"http://{REBOUND}:{port}/page",
        "another port of this machine": "http://localhost:9/page",
        "a port of a sandbox": f"http://8000-aaaaaaaaaaaa.localhost:{port}/page",
        "no origin": "data:text/html,<body></body>",
    }


def attack(line: ClientConnection, kind: str, door: str, paths: tuple[str, ...], *tokens: str) -> None:
    """Have a page try each way to each path of a door, with each token; nothing is let in, or answered."""
    page, port = Page(line), int(door.rpartition(":")[2])
    url = origins(port)[kind]
    page.open(url, None if url.startswith("data:") else "<body></body>")
    target = f"http://{REBOUND}:{port}" if kind == "a name led here" else door
    for path in paths:
        for token in tokens:
            page.statuses.clear()
            found = page.run(ATTACKS, target, path, token)
            came = [status for url, status in page.statuses if url.startswith(target) or url == "socket"]
            assert len(came) >= 8, page.statuses  # the attacks took place
            assert set(came) <= set(REFUSALS), page.statuses
            for way, seen in found.items():
                same = kind == "a name led here" and re.search(r"basic (401|403|421) |cannot answer", seen)
                known = seen in ("failed", "closed", "true", "", "loaded") or seen == "opaque 0 "
                assert known or same, (way, seen)


@pytest.mark.parametrize("kind", origins(1))
def test_no_page_of_another_place_reaches_the_server(
    line: ClientConnection, server: Served, shared_hf: Holdfast, kind: str
) -> None:
    """Also a page that knows the token: it is not a page of this server, or its name is not the server's."""
    names = [each.name for each in shared_hf.sessions()]
    paths = ("/v1/sessions", "/mcp", "/v2/sandboxes")
    attack(line, kind, server.url, paths, "x" * 20, server.token)
    assert [each.name for each in shared_hf.sessions()] == names


def test_no_page_of_another_place_reaches_the_server_for_agents(
    line: ClientConnection, make_cli: Callable[[Home], Cli], shared_home: Home
) -> None:
    """`holdfast mcp --http` has the same rules."""
    with make_cli(shared_home).start("mcp", "--http", "0", stdout=subprocess.PIPE) as process:
        assert process.stdout
        url = process.stdout.readline().decode().split()[-1].removesuffix("/mcp")
        token = shared_home.root / "mcp-token"
        assert polling.until(token.exists, 60)
        try:
            for kind in ("a name led here", "another site"):
                attack(line, kind, url, ("/mcp",), "x" * 20, token.read_text().strip())
        finally:
            process.terminate()
            process.wait(60)


# A page of a port does what it can for its worker and its cookies to be met elsewhere.
SPREAD = """async () => {
  document.cookie = "script=1; domain=localhost";
  document.cookie = "all=1; domain=.localhost; path=/";
  await navigator.serviceWorker.register("/worker.js");
  const workers = navigator.serviceWorker;
  if (!workers.controller) await new Promise(done => { workers.oncontrollerchange = done; });
  return await (await fetch("/seen")).text();
}"""
HERE = "async () => document.body.innerText"


def test_a_page_of_a_port_stays_with_its_port(
    line: ClientConnection, server: Served, shared_hf: Holdfast
) -> None:
    """Its worker answers for its own name alone; no other port, and not the server, is sent its cookies."""
    with control_wire(server) as wire:
        made = wire.new(network={"allowPublicTraffic": True})["sandboxID"]
        session = shared_hf.session(made)
        session.files.write("/tmp/port_pages.py", PROGRAM.read_bytes())
        session.detach(f"python3 /tmp/port_pages.py {FIRST}", name="pages")
        probe = f"(exec 3<>/dev/tcp/127.0.0.1/{FIRST + 1})"
        assert polling.until(lambda: session.programs.run(["bash", "-c", probe]).ok, 60, 0.1)
        first, second = (f"http://{FIRST + n}-{made}.localhost:{server.port}" for n in range(2))

        page = Page(line)
        page.open(first)
        assert page.run(SPREAD) == "stolen"  # the attack took place
        assert "own" in page.cookies(first)
        for other in (second, server.url, f"http://localhost:{server.port}"):
            assert page.cookies(other) == []
        page.open(f"{second}/seen")
        seen = json.loads(page.run(HERE))
        assert "cookie" not in seen
        page.open(f"http://localhost:{server.port}/v1/sessions")
        assert "stolen" not in page.run(HERE)
