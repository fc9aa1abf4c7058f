"""Notices of a real server: to a webhook, and by push to a browser whose service worker shows them."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.integration.conftest import Cli
from tests.integration.doors.chromium import browser
from tests.integration.doors.page_person import SAYS, go, opened
from tests.integration.doors.post_host import CLICKED, REGISTERED, SHOWN, Post
from tests.integration.served import Served, serving
from tests.runtime.notices.push_browser import PushBrowser
from websockets.sync.client import ClientConnection

from holdfast import Notices
from holdfast.base import polling
from holdfast.base.home import Home
from holdfast.errors import InvalidArgument
from holdfast.runtime.api.controller import Holdfast
from holdfast.runtime.api.session import Session

pytestmark = pytest.mark.timeout(600)

SHOWS = """(show) => {
  navigator.serviceWorker.dispatchEvent(new MessageEvent("message", {data: {show}}));
}"""
ATTACK = "<img src=x onerror=owned=1>"


@pytest.fixture(scope="module")
def post() -> Iterator[Post]:
    made = Post()
    yield made
    made.server.shutdown()
    made.server.server_close()


@pytest.fixture(scope="module")
def cli(make_cli: Callable[[Home], Cli], shared_home: Home) -> Cli:
    return make_cli(shared_home)


@pytest.fixture(scope="module")
def server(cli: Cli, shared_home: Home) -> Iterator[Served]:
    with serving(cli, shared_home, "--notices-to", "127.0.0.0/8") as found:
        yield found


@pytest.fixture(scope="module")
def work(shared_hf: Holdfast) -> Session:
    return shared_hf.new("notified", network="none")


@pytest.fixture(scope="module")
def line(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClientConnection]:
    with browser(tmp_path_factory.mktemp("browser") / "profile") as found:
        yield found


@dataclass
class OnDesktop:
    """The output of `notices watch` on a desktop, a line for each notice."""

    shown: Path


@pytest.fixture
def on_desktop(cli: Cli, tmp_path: Path, work: Session) -> Iterator[OnDesktop]:
    """A person who watches, with a `notify-send` that keeps what it is to show."""
    shown, program = tmp_path / "shown", tmp_path / "notify-send"
    program.write_text(f'#!/bin/sh\nprintf "%s|%s\\n" "$4" "$5" >> {shown}\n')
    program.chmod(0o755)
    environment = {**cli.environment, "DISPLAY": ":99", "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    command = [sys.executable, "-m", "holdfast", "notices", "watch", "--session", "notified"]
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    ) as watching:
        assert watching.stderr is not None
        assert b"notifying you" in watching.stderr.readline()
        yield OnDesktop(shown)
        watching.send_signal(signal.SIGINT)
        assert watching.wait(60) == 130


def _until(work: Callable[[], object]) -> None:
    assert polling.until(lambda: bool(work()), 60, 0.2)


@pytest.mark.brief
def test_a_webhook_hears_of_questions_ends_failures_and_a_death(
    server: Served, post: Post, work: Session, shared_hf: Holdfast, cli: Cli, on_desktop: OnDesktop
) -> None:
    """Signed, each once; a question that an agent answers immediately, and earlier questions, disturb no
    one.

    Subscribed by the command line, and from Python. A desktop shows the same questions.
    """
    work.exec("false")
    person = ("--as", "person:ann", "--json", "notices")
    made = json.loads(cli(*person, "add", f"{post.url}/all", "--after", "0.5s").out)
    with Notices(server.url, server.token, actor="person:ann") as notices:
        other = notices.add(f"{post.url}/other", session="notified")
        assert [each.id for each in notices.list()] == [made["id"], other.id]
        assert notices.test(made["id"]) == ""
        with pytest.raises(InvalidArgument, match="not a public address"):
            notices.add("https://169.254.169.254/")
    assert cli("--as", "person:ann", "notices", "test", other.id).err == "holdfast: the trial has arrived\n"
    assert other.id in cli("--as", "person:ann", "notices", "ls").out
    assert "you do not have one with that id" in cli("--as", "person:bob", "notices", "rm", other.id).err
    _until(lambda: post.kinds("/all") == ["test"] and post.kinds("/other") == ["test"])
    mortal = shared_hf.new("mortal", network="none")
    work.exec("read -rp 'Quick? ' x", wait=False)
    work.answer("yes\n", wait=True)
    work.exec("true")
    work.exec(f"read -rsp 'Secret {ATTACK}? ' x", wait=False)
    _until(lambda: post.kinds("/all") == ["test", "waiting"])
    work.answer("hunter2\n", wait=True)
    _until(lambda: post.kinds("/all")[2:] == ["ended"])
    work.exec("sh -c 'exit 7'")
    _until(lambda: post.kinds("/all")[3:] == ["failed"])
    container = shared_hf.context.store.session(mortal.id).container_id
    subprocess.run(["docker", "kill", str(container)], check=True, capture_output=True)
    _until(lambda: post.kinds("/all")[4:] == ["died"])
    assert post.kinds("/other") == [
        "test",
        "waiting",
        "failed",
    ]  # a minute is long, and one session is that one
    program = f"notified: bash waits for a password|Secret {ATTACK}?"
    _until(lambda: on_desktop.shown.exists() and program in on_desktop.shown.read_text())
    assert "hunter2" not in on_desktop.shown.read_text()

    key = base64.b64decode(made["secret"].removeprefix("whsec_"))
    for fields, body in post.at("/all"):
        signed = f"{fields['webhook-id']}.{fields['webhook-timestamp']}.".encode() + body
        mark = base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
        assert fields["webhook-signature"] == f"v1,{mark}"
        assert b"hunter2" not in body
    told = json.loads(post.at("/all")[1][1])
    assert (told["session"], told["shell"]) == ("notified", "main")
    assert told["title"].endswith("waits for a password")
    assert told["url"] == f"{server.url}/#/s/notified"
    assert made["secret"] not in server.client.get("/v1/notices").text
    mortal.remove()
    for each in (made["id"], other.id):
        assert cli("--as", "person:ann", "notices", "rm", each).code == 0
    assert json.loads(cli(*person, "ls").out) == []


def test_a_push_is_shown_by_the_browser_and_leads_to_its_session(
    line: ClientConnection, cli: Cli, server: Served, post: Post, work: Session
) -> None:
    """Only the browser's keys can read the message at the push service; its text is text."""
    page = opened(line, cli, "notified")
    page.allow_notifications(server.url)
    assert page.run(REGISTERED)
    receiver = PushBrowser()
    wanted = {"endpoint": f"{post.url}/push", "keys": receiver.keys, "kinds": ["waiting"]}
    made = server.post("/v1/notices", wanted, status=201)
    assert made["secret"] is None
    work.exec(f"read -rp 'Name {ATTACK}? ' x", wait=False)
    _until(lambda: post.at("/push"))
    work.answer("ada\n", wait=True)
    ((fields, body),) = post.at("/push")
    assert fields["content-encoding"] == "aes128gcm"
    assert b"notified" not in body
    message = receiver.read(body)

    go(page, "#/")
    page.push(server.url, message)
    page.until("async () => (await (" + SHOWN + ")()).length === 1")
    ((title, text),) = page.run(SHOWN)
    assert title.startswith("notified: ")
    assert ATTACK in text
    page.in_worker(CLICKED)
    page.until("() => location.hash === '#/s/notified'")
    # A message to the page leads to its own views alone, and a push without sense shows something harmless.
    for where in ("#/s/x?ticket=1", "https://evil.test/", "#ticket=abc", 7):
        page.run(SHOWS, where)
    assert page.run("() => location.hash") == "#/s/notified"
    page.push(server.url, b"[1")
    page.until("async () => (await (" + SHOWN + ")()).some(each => each[0] === 'Holdfast')")
    page.close()
    server.call("DELETE", f"/v1/notices/{made['id']}", status=204)


def test_a_person_subscribes_in_the_page(
    line: ClientConnection, cli: Cli, server: Served, post: Post, work: Session
) -> None:
    """A URL with its secret shown once, a trial, and an address inside that is refused with a reason."""
    page = opened(line, cli, "notified")
    go(page, "#/notices")
    page.until(SAYS, "Tell me when")
    add = """(url) => {
      const form = [...document.querySelectorAll(".notices form")].at(-1);
      form.elements.url.value = url;
      form.requestSubmit();
    }"""
    press = """(text) => {
      const there = [...document.querySelectorAll(".notices button:enabled")];
      const made = there.find(each => each.innerText === text);
      if (made) made.click();
      return Boolean(made);
    }"""
    page.run(add, "https://169.254.169.254/latest/meta-data")
    page.until(SAYS, "not a public address")
    page.run(add, f"{post.url}/by-page")
    page.until(SAYS, "whsec_")
    page.until(press, "Try")
    page.until(SAYS, "it has arrived")
    assert post.kinds("/by-page") == ["test"]
    page.until(press, "Remove")
    page.until("() => document.querySelector('.notices li') === null")
    page.close()


def test_the_right_to_be_notified_ends_with_its_key(
    server: Served, cli: Cli, post: Post, work: Session
) -> None:
    """A viewer cannot subscribe; a revoked key's subscription is silent; actors do not see each other's."""

    def key(role: str, name: str) -> dict[str, str]:
        made = json.loads(cli("--json", "access", "new", name, "--role", role, "--person").out)
        return {"authorization": f"Bearer {made['key']}"}

    def ask(method: str, path: str, headers: dict[str, str], body: Any = None) -> Any:
        return server.client.request(method, path, headers=headers, json=body)

    viewer, member = key("viewer", "vera"), key("member", "mel")
    body = {"webhook": f"{post.url}/mel", "kinds": ["failed"]}
    assert ask("POST", "/v1/notices", viewer, body).status_code == 403
    made = ask("POST", "/v1/notices", member, body)
    assert made.status_code == 201
    own = server.post("/v1/notices", {**body, "webhook": f"{post.url}/own"}, status=201)
    assert [each["id"] for each in server.get("/v1/notices")] == [own["id"]]
    assert ask("DELETE", f"/v1/notices/{own['id']}", member).status_code == 400
    for url in ("http://127.0.0.1@evil.test/", "https://[::ffff:10.0.0.1]/", "gopher://127.0.0.1/"):
        assert ask("POST", "/v1/notices", member, {"webhook": url}).status_code == 400
    _until(lambda: (work.exec("sh -c 'exit 3'"), post.kinds("/mel"))[1])
    assert cli("access", "rm", "mel").code == 0
    heard = len(post.kinds("/mel"))

    def silent() -> bool:
        nonlocal heard
        before, count = heard, len(post.kinds("/own"))
        work.exec("sh -c 'exit 3'")
        _until(lambda: len(post.kinds("/own")) > count)
        heard = len(post.kinds("/mel"))
        return heard == before

    _until(silent)
    server.call("DELETE", f"/v1/notices/{own['id']}", status=204)
