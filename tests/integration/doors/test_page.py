"""The web page in a real browser: a person follows a session, types, answers, copies it; and attacks."""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Callable, Iterator
from urllib.parse import urlsplit

import pytest
from tests import hostile_output
from tests.integration.conftest import Cli
from tests.integration.doors.chromium import Page, browser
from tests.integration.doors.page_person import ANSWER, POINT, PRESS, SAYS, SCREEN, link, opened, typing
from tests.integration.served import Served, serving
from websockets.sync.client import ClientConnection

from holdfast.base import polling
from holdfast.base.home import Home
from holdfast.runtime.api.controller import Holdfast
from holdfast.runtime.api.session import Session

pytestmark = pytest.mark.timeout(600)

DISPLAYS = """
from IPython.display import HTML, SVG, display
owned = "parent.owned=1;top.owned=1"
display(HTML(f"<b>table</b><script>{owned}</script><img src=x onerror={owned}>"))
display(SVG(f'<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"><script>{owned}</script></svg>'))
"""
SLOWEST = """async () => {
  let slowest = 0;
  for (let n = 0; n < 20; n++) {
    const before = performance.now();
    await new Promise(done => setTimeout(done, 50));
    slowest = Math.max(slowest, performance.now() - before - 50);
  }
  return slowest;
}"""
OWNED = "() => [window.owned, document.title, document.querySelectorAll('img, script[src^=x]').length]"


@pytest.fixture(scope="module")
def line(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClientConnection]:
    with browser(tmp_path_factory.mktemp("browser") / "profile") as found:
        yield found


@pytest.fixture(scope="module")
def cli(make_cli: Callable[[Home], Cli], shared_home: Home) -> Cli:
    return make_cli(shared_home)


@pytest.fixture(scope="module")
def server(cli: Cli, shared_home: Home) -> Iterator[Served]:
    with serving(cli, shared_home) as found:
        yield found


@pytest.fixture(scope="module")
def work(shared_hf: Holdfast) -> Session:
    return shared_hf.new("work", network="none")


@pytest.mark.brief
def test_a_person_types_answers_a_password_and_forks(
    line: ClientConnection, cli: Cli, server: Served, work: Session, shared_hf: Holdfast
) -> None:
    """The link works once; the person's actions are journalled as theirs."""
    url = link(cli, "work")
    page = Page(line)
    page.open(url)
    page.until("() => document.querySelector('.xterm-rows') !== null")
    assert "ticket" not in page.run("() => location.href")

    typing(page)
    page.write("echo $((6*7))-typed")
    page.enter()
    page.until(SCREEN, "42-typed")
    page.until(SAYS, "exit 0")
    page.write("read -rsp 'Secret: ' x; echo; echo ${#x} characters")
    page.enter()
    page.until(SAYS, "waits for a password")
    assert page.run(ANSWER, "hunter2") == "password"
    page.until(SCREEN, "7 characters")
    actors = {each.as_dict().get("actor") for each in work.journal(kinds=["command_started"])}
    assert actors == {"person:ann"}

    before = {each.id for each in shared_hf.sessions()}
    work.snapshot("before")
    page.until(POINT, "before")
    page.until(PRESS, "Fork")
    page.until("() => document.querySelector('dialog') !== null")
    page.until(PRESS, "Fork")
    assert polling.until(lambda: len({each.id for each in shared_hf.sessions()} - before) == 1, 60, 0.2)
    (copy,) = (each for each in shared_hf.sessions() if each.id not in before)
    page.until(SAYS, copy.name)
    page.until(SCREEN, "7 characters")  # the terminal of the copy shows the same moment
    copy.remove()

    again = Page(line)
    again.open(url)
    again.until(SAYS, "the link was used before")
    assert not again.run("() => sessionStorage.length")


def test_the_list_shows_waiting_sessions_and_viewing_wakes_none(
    line: ClientConnection, cli: Cli, server: Served, work: Session, shared_hf: Holdfast
) -> None:
    """A session that sleeps stays asleep under the eyes of a page, and wakes when the person says so."""
    asleep = shared_hf.new("sleeper", network="none")
    asleep.exec("echo kept-output")
    asleep.suspend()
    page = Page(line)
    page.open(link(cli, "sleeper"))
    page.until(SAYS, "This session is suspended")
    page.until(SAYS, "echo kept-output")  # its journal is the home's
    page.run("() => { location.hash = '#/'; }")
    page.until("() => document.querySelectorAll('a.session').length >= 2")
    work.exec("read -rp 'Name: ' name", wait=False)
    page.until(SAYS, "waits for a line")
    work.answer("ann\n", wait=True)
    assert asleep.refresh().state == "suspended"

    page.run("() => { location.hash = '#/s/sleeper'; }")
    page.until(PRESS, "Wake it")
    page.until(SCREEN, "kept-output")
    assert asleep.refresh().state == "running"
    asleep.remove()


def test_a_visitor_of_a_shared_link_watches_and_cannot_type(
    line: ClientConnection, server: Served, cli: Cli, work: Session
) -> None:
    """It is made on the page of another person. The visitor's page shows the shell, why nothing can be typed,
    and its end once the link is revoked there.
    """
    work.exec("echo seen-by-$((40 + 2))")
    owner = opened(line, cli, "work")
    owner.until(PRESS, "Share")
    owner.until(PRESS, "Make a link")
    owner.until("() => document.querySelector('dialog .made input')?.value.includes('#ticket=')")
    url = str(owner.run("() => document.querySelector('dialog .made input').value"))
    page = Page(line)
    page.open(url)
    page.until(SCREEN, "seen-by-42")
    assert page.run("() => location.hash") == "#/s/work"
    page.until(PRESS, "Type|Take")
    page.until(SAYS, "sessions:exec")
    (shared,) = json.loads(cli("share", "work", "--list", "--json").out)
    assert (shared["visits"], shared["may"]) == (1, "watch")
    owner.until(SAYS, f"person:{shared['name']}")  # among the people at the shell
    owner.until(PRESS, "Revoke")
    page.until(SAYS, "has ended")


def test_a_sessions_output_neither_types_nor_leaves_its_place(
    line: ClientConnection, cli: Cli, server: Served, work: Session
) -> None:
    """Each case of the corpus in the terminal of a person who holds the lease, and HTML in every name."""
    cases = b"\x1bc".join(hostile_output.cases().values())
    work.files.write("/tmp/hostile", cases + b"\x1bc")
    page = opened(line, cli, "work")
    typing(page)
    page.run("() => { window.owned = 0; document.title = 'same'; }")
    page.statuses.clear()
    attack = "<img src=x onerror=owned=1><script>owned=1</script>"
    page.write(f"cat /tmp/hostile; echo all-of-$((6*7)); sleep 1; : '{attack}'")
    page.enter()
    page.until(SCREEN, "all-of-42")
    started = work.journal(kinds=["command_started"])[-1].seq
    work.files.write(f"/workspace/{attack.replace('/', '')}", b"x")
    work.snapshot("after", reason=attack)
    page.until(POINT, "after")
    page.until(SAYS, "onerror=owned=1")
    page.run(
        "() => [...document.querySelectorAll('nav button')].find(each => each.innerText === 'files').click()"
    )
    page.until(SAYS, "Upload")
    page.until(SAYS, "onerror=owned=1")

    typed = [each.as_dict() for each in work.journal(kinds=["input"]) if each.seq > started]
    assert typed == [], json.dumps(typed)
    assert page.run(OWNED) == [0, "same", 0]
    assert hostile_output.MARK not in page.run(
        "async () => await navigator.clipboard.readText().catch(() => '')"
    )
    assert {urlsplit(url).netloc for url, _ in page.statuses if url.startswith("http")} <= {
        urlsplit(server.url).netloc
    }
    page.close()


def test_the_output_of_cells_is_shown_and_does_nothing(
    line: ClientConnection, cli: Cli, server: Served, work: Session
) -> None:
    """HTML is in a frame without origin and scripts; a picture is a picture."""
    work.cell(DISPLAYS)
    page = opened(line, cli, "work")
    page.run("() => { window.owned = 0; }")
    page.until("() => document.querySelectorAll('iframe.rich, img.plot').length === 2")
    page.until("() => document.querySelector('img.plot').complete")
    seen = page.run(
        "() => { const f = document.querySelector('iframe.rich');"
        " return [f.getAttribute('sandbox'), f.contentDocument === null, window.owned]; }"
    )
    assert seen == ["", True, 0]


def test_a_page_goes_on_at_the_very_byte_after_its_server_was_killed(
    line: ClientConnection, cli: Cli, shared_home: Home, shared_hf: Holdfast
) -> None:
    """No line twice and none missing, and a key that is still good."""
    session = shared_hf.new("counter", network="none")
    words = ("serve", "--rate", "0", "--listen")
    with cli.start(*words, "0", stdout=-1) as first:
        assert first.stdout
        port = first.stdout.readline().decode().strip().rpartition(":")[2]
        page = opened(line, cli, "counter")
        session.detach("true")
        session.exec("for i in $(seq 1 60); do echo line-$i-; sleep 0.1; done", wait=False, patience=0.1)
        page.until(SCREEN, "line-3-")
        first.send_signal(signal.SIGKILL)
        first.wait(30)
    page.until(SAYS, "trying again")
    with cli.start(*words, port, stdout=-1) as second:
        assert second.stdout
        second.stdout.readline()
        page.until(SCREEN, "line-60-")
        text = page.run(
            "() => { const t = document.querySelector('terminal-view').terminal.buffer.active, found = [];"
            " for (let n = 0; n < t.length; n++) found.push(t.getLine(n).translateToString(true));"
            " return found.join('\\n'); }"
        )
        assert re.findall(r"^line-(\d+)-$", text, re.MULTILINE) == [str(n) for n in range(1, 61)]
        second.send_signal(signal.SIGTERM)
        assert second.wait(60) == 0
    session.remove()


def test_a_flood_of_output_leaves_the_page_usable(
    line: ClientConnection, cli: Cli, server: Served, work: Session
) -> None:
    """The page is asked something while 20 MB pass, and answers within a second."""
    page = opened(line, cli, "work")
    work.exec(
        "yes 'a line of output that is neither short nor long' | head -c 20000000", wait=False, patience=0.1
    )
    slowest = page.run(SLOWEST)
    work.exec("echo flood-over", busy_wait=120)
    page.until(SCREEN, "flood-over")
    assert slowest < 1000


def test_a_preview_link_opens_in_a_browser(
    line: ClientConnection, cli: Cli, server: Served, work: Session
) -> None:
    """The token becomes a cookie of that name alone, and leaves the address; its page reaches no other."""
    work.files.make_folder("/tmp/site")
    work.files.write("/tmp/site/index.html", b"<h1>the dev server</h1><script src=own.js></script>")
    work.files.write("/tmp/site/own.js", b"document.title = 'scripts of the session run there'")
    work.detach("python3 -m http.server -b 127.0.0.1 -d /tmp/site 3000")
    work.wait_port(3000)
    url = json.loads(cli("--json", "preview", "work", "3000").out)["url"]
    page = Page(line)
    page.open(url)
    page.until(SAYS, "the dev server")
    page.until("() => document.title.startsWith('scripts of')")
    assert page.run("() => location.search") == ""
    assert "holdfast-preview" in page.cookies(url)
    assert page.cookies(server.url) == []
    read = "async (url) => { try { return (await fetch(url)).status; } catch { return 'refused'; } }"
    assert page.run(read, f"http://localhost:{server.port}/v1/sessions") == "refused"
    stranger = Page(line)
    stranger.open(f"http://{urlsplit(url).netloc.replace('3000-', '3001-')}/")
    assert not stranger.run(SAYS, "the dev server")
