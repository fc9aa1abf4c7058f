"""Previews: links by which people see what listens in a session, here one without any network."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from tests.integration.conftest import Cli
from tests.integration.served import Over, Served, serving
from tests.integration.test_e2b_ports import FIRST, FLOOD, GARBAGE, SILENT, begin
from websockets.exceptions import InvalidStatus
from websockets.sync.client import ClientConnection, connect
from websockets.typing import Origin

from holdfast.base import polling
from holdfast.base.home import Home
from holdfast.errors import InvalidArgument, ServerUnavailable
from holdfast.runtime.api.controller import Holdfast
from holdfast.runtime.api.session import Session
from holdfast.runtime.client.blocking.remote_holdfast import RemoteHoldfast

PATIENCE = 60
PAGES = FIRST + 100
TITLE = "<title>\\u202eegap \\x1b]0;owned\\x07 &lt;b&gt; &#x202e;</title>"
"""Of a page that would turn and rename the terminal it is shown in."""
HTML: dict[str, Any] = {"accept": "text/html"}


@pytest.fixture(scope="module")
def shared(shared_hf: Holdfast) -> Session:
    made = shared_hf.new("shared", network="none")
    begin(made)
    made.files.make_folder("/tmp/pages")
    made.files.write("/tmp/pages/index.html", TITLE.encode().decode("unicode_escape").encode())
    made.detach(f"python3 -m http.server -b 127.0.0.1 -d /tmp/pages {PAGES}")
    made.wait_port(PAGES)
    return made


@pytest.fixture(scope="module")
def server(shared: Session, make_cli: Callable[[Home], Cli], shared_home: Home) -> Iterator[Served]:
    with pytest.raises(ServerUnavailable, match="no server of this home runs"):
        shared.preview(FIRST)
    refused = make_cli(shared_home)("preview", "shared", str(FIRST))
    assert refused.code == 1
    assert refused.err.splitlines() == [
        f"holdfast: cannot preview port {FIRST}: no server of this home runs",
        "  hint: `holdfast serve` starts one; keep it running while links are used",
    ]
    with serving(make_cli(shared_home), shared_home) as found:
        yield found


class Visitor:
    """A browser that has followed a link, or a program that has not."""

    def __init__(self, server: Served, url: str, headers: dict[str, str]) -> None:
        self.host, self.headers = urlsplit(url).netloc, headers
        self._server = server

    def ask(self, path: str = "/", port: int = FIRST, **headers: str) -> httpx.Response:
        host = self.host.replace(f"{FIRST}-", f"{port}-", 1)
        with self._client() as client:
            return client.get(path, headers={"host": host} | self.headers | headers)

    def first_of(self, path: str) -> str:
        """Return the first line of an endless answer."""
        headers = {"host": self.host} | self.headers
        with self._client() as client, client.stream("GET", path, headers=headers) as answer:
            return next(answer.iter_lines())

    def socket(self, origin: str | None = None) -> ClientConnection:
        opened = socket.create_connection(("127.0.0.1", self._server.port))
        found: ClientConnection = connect(
            f"ws://{self.host}/echo",
            sock=opened,
            additional_headers=self.headers,
            origin=Origin(origin or f"http://{self.host}"),
            proxy=None,
        )
        return found

    def _client(self) -> httpx.Client:
        return httpx.Client(base_url=self._server.url, trust_env=False, timeout=PATIENCE)


def followed(server: Served, url: str) -> Visitor:
    """Follow a link as a browser does."""
    asked = urlsplit(url)
    assert asked.port == server.port
    stranger = Visitor(server, url, {})
    answer = stranger.ask(f"{asked.path}?{asked.query}", **HTML)
    assert (answer.status_code, answer.headers["location"]) == (303, "/")
    return Visitor(server, url, {"cookie": answer.headers["set-cookie"].partition(";")[0]})


def test_a_link_opens_its_port_and_no_other(server: Served, shared: Session, shared_cli: Cli) -> None:
    """HTTP, streams and WebSockets; the session sees a visitor of its loopback, without the token."""
    done = shared_cli("preview", "shared", str(FIRST), "--for", "2h")
    assert done.code == 0
    assert f"the link shows port {FIRST} for 2 h" in done.err
    visitor = followed(server, done.out.strip())
    answer = visitor.ask("/x?a=1", referer=f"http://{visitor.host}/page")
    told = answer.json()
    assert told["uri"] == "/x?a=1"
    assert told["headers"]["host"] == f"localhost:{FIRST}"
    assert told["headers"]["referer"] == f"http://localhost:{FIRST}/page"
    assert "cookie" not in told["headers"]
    assert answer.headers["set-cookie"] == "a=1"
    assert visitor.first_of("/slow") == "first"
    with visitor.socket() as opened:
        opened.send("hello")
        assert opened.recv(PATIENCE) == "hello"
    for other in (f"http://{PAGES}-{shared.id}.localhost:{server.port}", server.url):
        with pytest.raises(InvalidStatus):
            visitor.socket(other)
    assert visitor.ask(port=PAGES).status_code == 403
    assert visitor.ask(port=9).status_code == 403
    refused = httpx.get(f"{server.url}/v1/sessions", headers=visitor.headers, trust_env=False)
    assert refused.status_code == 401


def test_links_are_made_over_a_url_and_revoked(
    server: Served,
    shared: Session,
    remote: RemoteHoldfast,
    shared_cli: Cli,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    over = Over(server, tmp_path_factory.mktemp("over"))
    made = json.loads(over("preview", "shared", str(FIRST), "--json"))
    assert (made["port"], made["public"], made["id"]) == (FIRST, False, shared.id)
    visitors = [followed(server, url) for url in (made["url"], shared.preview(FIRST).url)]
    handle = remote.session("shared")
    with visitors[0].socket() as opened:
        handle.revoke_preview(FIRST)
        assert [each.ask(**HTML).status_code for each in visitors] == [403, 403]
        with pytest.raises(Exception, match="1012"):
            opened.recv(PATIENCE)
    public = handle.preview(FIRST, public=True, seconds=60)
    assert Visitor(server, public.url, {}).ask().is_success
    assert Visitor(server, public.url, {}).ask(port=PAGES).status_code == 403
    assert over("preview", "shared", str(FIRST), "--revoke") == ""
    assert Visitor(server, public.url, {}).ask().status_code == 403
    for words, said in (
        (["0"], "ports range from 1 to 65535"),
        (["1", "--for", "soon"], "cannot use the time 'soon'"),
        (["1", "--for", "90d"], "a link lasts from 1 s to 30 days"),
        (["1", "--revoke", "--public"], "cannot both make and revoke links"),
    ):
        done = shared_cli("preview", "shared", *words)
        assert done.code != 0
        assert said in done.err
    with pytest.raises(InvalidArgument):
        handle.preview(FIRST, seconds=0)


def test_a_link_stays_when_the_session_is_captured_resumed_and_rewound(
    server: Served, shared: Session, shared_hf: Holdfast
) -> None:
    """It is not a copy's, and a person learns when the session does not run."""
    visitor = followed(server, shared.preview(FIRST).url)
    taken = shared.snapshot()
    assert visitor.ask().is_success
    with taken.restore() as copy:
        visitor.host = visitor.host.replace(shared.id, copy.id)
        assert visitor.ask().status_code == 403
        visitor.host = visitor.host.replace(copy.id, shared.id)
    copy.remove()
    shared.suspend()
    answer = visitor.ask(**HTML)
    assert (answer.status_code, "is suspended: `holdfast resume`" in answer.text) == (503, True)
    shared.resume()
    assert visitor.ask().is_success
    shared.rewind(taken, discard=True)
    assert visitor.ask().is_success
    shared.revoke_preview(FIRST)


def test_listeners_and_their_answers(
    server: Served, shared: Session, remote: RemoteHoldfast, shared_cli: Cli
) -> None:
    """Titles are safe to show, servers that do not answer hold no one up, and a look is not activity."""
    entries = len(shared.journal())
    here = {each.port: each for each in shared.ports()}
    own = [number for number in here if FIRST <= number <= PAGES]  # the kernel listens as well
    assert own == [*range(FIRST, FIRST + FLOOD + 1), PAGES]
    page = here[PAGES]
    assert (page.answer, page.status, page.title) == ("http", 200, "egap ]0;owned <b>")
    assert page.addresses == ("127.0.0.1",)
    assert f"http.server -b 127.0.0.1 -d /tmp/pages {PAGES}" in page.program
    assert (here[FIRST].answer, here[FIRST].status, here[FIRST].title) == ("http", 200, None)
    assert [here[FIRST + kind].status for kind in (GARBAGE, SILENT)] == [None, None]
    assert here[FIRST + FLOOD].status == 200
    there = {each.port: each for each in remote.session("shared").ports()}
    assert there[PAGES] == page
    done = shared_cli("ports", "shared")
    line = next(line for line in done.out.splitlines() if line.startswith(str(PAGES)))
    assert line.endswith("200 egap ]0;owned <b>")
    assert PAGES in [each["port"] for each in shared_cli("ports", "shared", "--json").json["ports"]]
    assert len(shared.journal()) == entries


def test_a_hostile_answer_is_an_error_in_one_line(server: Served, shared: Session) -> None:
    """A session's answer costs its own visitors a page, and no one else anything."""
    for kind in (GARBAGE,):
        url = shared.preview(FIRST + kind).url
        answer = Visitor(server, url, {}).ask("/?" + urlsplit(url).query, port=FIRST)
        assert answer.status_code == 502
        assert "cannot read the answer" in answer.text
        shared.revoke_preview(FIRST + kind)
    closed = shared.preview(9).url
    answer = Visitor(server, closed, {}).ask("/?" + urlsplit(closed).query)
    assert (answer.status_code, "the port is not open" in answer.text) == (502, True)
    assert polling.until(lambda: server.client.get("/health").status_code == 200, PATIENCE, 0.1)
