"""What a person does who has just started: one story in a real browser, from the link to the next prompt.

They open the page, follow an agent, answer its password prompt, fork the moment before its mistake, continue
in JupyterLab with its variables, open the preview of its server, play back what happened, and are notified
when it waits again.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.integration.conftest import Cli
from tests.integration.doors.chromium import Page, browser
from tests.integration.doors.jupyter_lab import OUTPUT, RUN, lab
from tests.integration.doors.jupyter_lab import opened as opened_notebook
from tests.integration.doors.page_person import ANSWER, IN, PLAYED, POINT, PRESS, SAYS, SCREEN, go, link
from tests.integration.doors.post_host import CLICKED, REGISTERED, SHOWN, Post
from tests.integration.served import Served, serving
from tests.runtime.notices.push_browser import PushBrowser
from websockets.sync.client import ClientConnection

from holdfast import RemoteHoldfast
from holdfast.base import polling
from holdfast.base.home import Home
from holdfast.runtime.api.controller import Holdfast

pytestmark = pytest.mark.timeout(600)
AGENT = "agent:builder"
SERVER = """
import http.server, threading
class Site(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200); self.send_header("content-type", "text/html"); self.end_headers()
        self.wfile.write(b"<h1>the site of the agent</h1>")
    def log_message(self, *_): pass
site = http.server.ThreadingHTTPServer(("127.0.0.1", 3000), Site)
threading.Thread(target=site.serve_forever, daemon=True).start()
"""


@pytest.fixture(scope="module")
def line(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClientConnection]:
    with browser(tmp_path_factory.mktemp("browser") / "profile") as found:
        yield found


@pytest.fixture(scope="module")
def cli(make_cli: Callable[[Home], Cli], shared_home: Home) -> Cli:
    return make_cli(shared_home)


@pytest.fixture(scope="module")
def server(cli: Cli, shared_home: Home) -> Iterator[Served]:
    with serving(cli, shared_home, "--notices-to", "127.0.0.0/8") as found:
        yield found


@pytest.mark.brief
def test_from_the_link_to_the_next_prompt(
    line: ClientConnection, cli: Cli, server: Served, shared_hf: Holdfast, tmp_path: Path
) -> None:
    """Each step as a person takes it, beside an agent that works over the server's URL."""
    shared_hf.new("build", network="none")
    with RemoteHoldfast(server.url, token=server.token, actor=AGENT) as remote:
        agent = remote.session("build")
        agent.cell("results = {'accuracy': 0.91}")

        # They open the page, and follow the agent.
        page = Page(line)
        page.open(link(cli, "build"))
        page.until("() => document.querySelector('.xterm-rows') !== null")
        agent.exec("echo the-agent-works-$((6*7))")
        page.until(SCREEN, "the-agent-works-42")
        page.until(SAYS, AGENT)

        # They answer its password prompt.
        agent.exec("read -rsp 'Passphrase: ' word; echo; echo ${#word} characters", wait=False)
        page.until(SAYS, "waits for a password")
        assert page.run(ANSWER, "hunter2") == "password"
        page.until(SCREEN, "7 characters")

        # They fork the moment before its mistake.
        agent.exec("mkdir -p /workspace/data; echo precious > /workspace/data/file")
        agent.snapshot("before-the-mistake")
        agent.cell("results.clear()")
        agent.exec("rm -rf /workspace/data; echo gone-$((6*7))")
        page.until(SCREEN, "gone-42")
        known = {each.id for each in shared_hf.sessions()}
        page.until(POINT, "before-the-mistake")
        page.until(PRESS, "Fork")
        page.until("() => document.querySelector('dialog') !== null")
        page.until(PRESS, "Fork")
        assert polling.until(lambda: len({each.id for each in shared_hf.sessions()} - known) == 1, 60, 0.2)
        (copy,) = (each for each in shared_hf.sessions() if each.id not in known)
        page.until(SAYS, copy.name)
        assert copy.exec("cat /workspace/data/file").text.strip() == "precious"
        assert agent.exec("ls /workspace/data").exit_code != 0

        # They continue in JupyterLab with the agent's variables.
        with lab(server, tmp_path) as jupyter:
            notebook = Page(line)
            cells = ["results['reviewed'] = True; print(results)"]
            opened_notebook(notebook, jupyter.notebook("review", f"holdfast-{copy.name}", cells))
            notebook.run(RUN)
            notebook.until(OUTPUT, "{'accuracy': 0.91, 'reviewed': True}")
            notebook.close()
        assert copy.cell("results").text == "{'accuracy': 0.91, 'reviewed': True}"

        # They open the preview of its server, which listens on the session's loopback.
        agent.cell(SERVER)
        agent.wait_port(3000)
        preview = Page(line)
        preview.open(json.loads(cli("--json", "preview", "build", "3000").out)["url"])
        preview.until(SAYS, "the site of the agent")
        preview.close()

        # They play back what happened.
        go(page, "#/s/build")
        page.until(POINT, "before-the-mistake")
        page.until(PRESS, "Play from here")
        page.until("() => location.hash.endsWith('/recording')")
        page.until("() => !document.querySelector('.player .primary').disabled")
        assert "gone-42" not in page.run(PLAYED)
        page.until(PRESS, "Play")
        page.until(f"() => ({PLAYED})().includes('gone-42')")

        # They are notified when the next prompt waits, with the page somewhere else, and answer it.
        post, receiver = Post(), PushBrowser()
        page.allow_notifications(server.url)
        assert page.run(REGISTERED)
        wanted = {"endpoint": f"{post.url}/push", "keys": receiver.keys, "kinds": ["waiting"]}
        server.post("/v1/notices", wanted, status=201)
        go(page, "#/")
        agent.exec("read -rp 'Deploy? ' sure; echo sure-$sure", wait=False)
        assert polling.until(lambda: post.at("/push"), 60, 0.2)
        ((_, body),) = post.at("/push")
        page.push(server.url, receiver.read(body))
        page.until("async () => (await (" + SHOWN + ")()).length === 1")
        page.in_worker(CLICKED)
        page.until("() => location.hash === '#/s/build'")
        page.until(IN, ".question", "Deploy?")
        page.run(ANSWER, "yes")
        page.until(SCREEN, "sure-yes")
        page.size(360, 740)
        assert page.run("() => document.documentElement.scrollWidth - innerWidth") <= 0
        post.server.shutdown()
        post.server.server_close()
    copy.remove()
    shared_hf.session("build").remove()
    for snapshot in shared_hf.snapshots():
        snapshot.remove()
