"""Further views of the web page in a real browser: shells, running cells, comparisons, recordings, tasks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from urllib.parse import urlsplit

import pytest
from tests import hostile_output
from tests.integration.conftest import Cli
from tests.integration.doors.chromium import browser
from tests.integration.doors.page_person import IN, PLAYED, POINT, PRESS, SCREEN, go, opened, typing
from tests.integration.served import Served, serving
from websockets.sync.client import ClientConnection

from holdfast.base import polling
from holdfast.base.home import Home
from holdfast.runtime.api.controller import Holdfast
from holdfast.runtime.api.session import Session

pytestmark = pytest.mark.timeout(600)

ATTACK = "<img src=x onerror=owned=1><script>owned=1</script>"
OWNED = "() => [window.owned || 0, document.querySelectorAll('img:not(.plot), script[src^=x]').length]"
TYPED = """(place, text, key) => {
  const field = document.querySelector(place);
  if (!field) return false;
  field.value = text;
  field.dispatchEvent(new Event("input", {bubbles: true}));
  if (key) field.dispatchEvent(new KeyboardEvent("keydown", {key, bubbles: true, cancelable: true}));
  else if (field.form) field.form.requestSubmit();
  return true;
}"""
CHOSEN = """(place, text) => {
  const field = document.querySelector(place);
  const made = field && [...field.options].find(each => each.text === text);
  if (!made) return false;
  field.value = made.value;
  field.dispatchEvent(new Event("change", {bubbles: true}));
  return true;
}"""
MOVED = """(to) => {
  const field = document.querySelector(".player input[type=range]");
  if (!field || field.disabled) return -1;
  field.value = to < 0 ? field.max : String(to);
  field.dispatchEvent(new Event("input", {bubbles: true}));
  return Number(field.value);
}"""
SELECTED = "() => document.querySelector('terminal-view').terminal.getSelection()"
DISPLAYS = f"""
import time
from IPython.display import HTML, display
print("one of two", flush=True)
display(HTML("<b>table</b>{ATTACK.replace("owned", "top.owned")}"))
name = input("Your name? ")
print("hello", name)
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
    with serving(cli, shared_home) as found:
        yield found


@pytest.fixture(scope="module")
def work(shared_hf: Holdfast) -> Session:
    return shared_hf.new("views", network="none")


def test_several_shells_are_opened_chosen_and_ended(
    line: ClientConnection, cli: Cli, server: Served, work: Session
) -> None:
    """Typed text goes to the shown shell; the page names the people there, and the typist."""
    other, page = opened(line, cli, "views"), opened(line, cli, "views")
    page.until(PRESS, "New shell")
    page.until(TYPED, "dialog input", "build", "End")
    page.until(PRESS, "Open")
    page.until(IN, "shell-tabs [aria-selected=true]", "build")
    typing(page)
    page.write("echo in-$((6*7))-build")
    page.enter()
    page.until(SCREEN, "in-42-build")
    assert "in-42-build" not in work.terminal.screen().text
    other.until(IN, "shell-tabs", "build")
    other.until(PRESS, "build")
    other.until(IN, "terminal-view", "person:ann types")
    other.until(IN, ".present", "person:ann (watches)")  # two pages of one person
    page.until(PRESS, "End build")
    page.until("() => document.querySelector('dialog') !== null")
    page.until(PRESS, "End")
    assert polling.until(lambda: [each.name for each in work.shells.list()] == ["main"], 60, 0.2)
    for each in (page, other):
        each.until(IN, "shell-tabs [aria-selected=true]", "main")
        each.close()


def test_a_running_cell_shows_its_output_and_asks(
    line: ClientConnection, cli: Cli, server: Served, work: Session
) -> None:
    """Before it ends; its question has a box; HTML is in its frame. The page runs a cell of the person."""
    page = opened(line, cli, "views")
    page.until("() => document.querySelector('.cell-box summary') !== null")
    page.run("() => document.querySelector('.cell-box summary').click()")
    page.until(TYPED, "textarea[name=code]", DISPLAYS, "")
    page.until(IN, ".live", "one of two")
    page.until("() => document.querySelector('.live iframe.rich') !== null")
    page.until(IN, ".block .question", "Your name?")
    page.until(TYPED, ".block .question input", "Ada", "")
    page.until("() => document.querySelector('.live') === null")
    page.until(IN, ".block.good", "hello Ada")
    assert work.journal(kinds=["cell_started"])[-1].as_dict()["actor"] == "person:ann"
    assert page.run(OWNED) == [0, 0]
    page.close()


def test_two_points_are_compared_and_one_with_now(
    line: ClientConnection, cli: Cli, server: Served, work: Session
) -> None:
    """Files by their names, whatever their characters, and their writers."""
    work.snapshot("first")
    work.files.write(f"/workspace/{ATTACK.replace('/', '')}", b"x")
    work.exec("touch /workspace/by-a-command")
    work.snapshot("second")
    work.exec("touch /workspace/later")
    page = opened(line, cli, "views")
    page.until(POINT, "first")
    page.until(CHOSEN, ".actions select", "second")
    page.until(IN, ".comparison", "From first to second")
    page.until(IN, ".changes", "/workspace/by-a-command")
    page.until(IN, ".changes", "onerror=owned=1")
    assert not page.run(IN, ".changes", "/workspace/later")
    page.until(CHOSEN, ".actions select", "now")
    page.until(IN, ".comparison", "From first to now")
    page.until(IN, ".changes", "/workspace/later")
    page.until(IN, ".changes", "touch /workspace/later")  # who did it
    assert page.run(OWNED) == [0, 0]
    page.close()


@pytest.mark.brief
def test_a_recording_plays_from_any_moment_and_does_nothing(
    line: ClientConnection, cli: Cli, server: Served, work: Session
) -> None:
    """From a command on, from a snapshot on, and back; with the corpus of hostile output in it."""
    work.exec("echo before-the-snapshot")
    work.snapshot("played")
    cases = b"\x1bc".join(hostile_output.cases().values())
    work.files.write("/tmp/hostile", cases + b"\x1bc")
    work.exec("sleep 0.3; cat /tmp/hostile; sleep 0.3; echo played-$((6*7)); sleep 0.3; echo the-end")
    page = opened(line, cli, "views")
    page.run("() => { window.owned = 0; }")
    page.statuses.clear()
    typed = len(work.journal(kinds=["input"]))
    page.until(POINT, "played")
    page.until(PRESS, "Play from here")
    page.until("() => location.hash.endsWith('/recording')")
    assert polling.until(lambda: page.run(MOVED, 0) == 0, 60, 0.2)
    page.until("() => !document.querySelector('.player .primary').disabled")
    page.until(f"() => ({PLAYED})().includes('before-the-snapshot')")
    assert "played-42" not in page.run(PLAYED)
    page.until(PRESS, "Play")
    page.until(f"() => ({PLAYED})().includes('the-end')")
    page.run(MOVED, 0)
    page.until(f"() => !({PLAYED})().includes('the-end')")
    page.run(MOVED, -1)
    page.until(f"() => ({PLAYED})().includes('the-end')")

    assert len(work.journal(kinds=["input"])) == typed
    assert page.run("() => [window.owned, document.title]") == [0, "views · Holdfast"]
    assert hostile_output.MARK not in page.run(
        "async () => await navigator.clipboard.readText().catch(() => '')"
    )
    hosts = {urlsplit(url).netloc for url, _ in page.statuses if url.startswith("http")}
    assert hosts == {urlsplit(server.url).netloc}
    page.close()


def test_the_terminal_is_searched(line: ClientConnection, cli: Cli, server: Served, work: Session) -> None:
    """Upwards from the newest match, by keys alone; a text that is not there is reported."""
    work.exec("for i in $(seq 1 200); do echo row-$i-end; done")
    page = opened(line, cli, "views")
    page.until(SCREEN, "row-200-end")
    page.run(
        "() => document.querySelector('terminal-view .bar').dispatchEvent("
        "new KeyboardEvent('keydown', {key: 'F', ctrlKey: true, shiftKey: true, bubbles: true}))"
    )
    page.until(TYPED, ".search input", "row-1", "Enter")
    first = page.run(SELECTED)
    assert first == "row-1"
    page.until(TYPED, ".search input", "row-17-end", "Enter")
    assert page.run(SELECTED) == "row-17-end"
    page.until(SCREEN, "row-17-end")
    page.until(TYPED, ".search input", "not-in-there", "Enter")
    page.until(IN, ".search", "not found")
    page.until(TYPED, ".search input", "", "Escape")
    page.until("() => document.querySelector('.search') === null")
    page.close()


def test_pulse_task_and_board_follow_events(
    line: ClientConnection, cli: Cli, server: Served, work: Session
) -> None:
    """A process that starts, a step that is done, a question that is answered: without a reload."""
    work.task.set(goal=f"Ship it {ATTACK}")
    work.task.plan("Build\n- compile\n- test")
    work.task.note(f"Which one {ATTACK}?", "question")
    page = opened(line, cli, "views")
    go(page, "#/s/views/pulse")
    page.until(IN, ".pulse", "Memory")
    work.detach("sleep 4242")
    page.until(IN, ".pulse table", "sleep 4242")
    go(page, "#/s/views/task")
    page.until(IN, ".task", "Ship it <img")
    work.task.step("1.1", status="skipped")
    page.until("() => document.querySelector('.step.skipped') !== null")
    page.until(TYPED, ".task form input", "this one", "")
    page.until(IN, ".task", "this one")
    known = work.task.record()
    assert known is not None
    assert [(each.text, each.by) for each in known.decisions] == [("this one", "person:ann")]
    go(page, "#/board")
    page.until(IN, ".board", "1 of 2")
    page.until(IN, ".board", "Ship it <img")
    assert page.run(OWNED) == [0, 0]
    page.close()


def test_the_page_is_usable_with_a_phone_and_by_keys(
    line: ClientConnection, cli: Cli, server: Served, work: Session
) -> None:
    """No view is wider than a phone, and each control has a name for a screen reader."""
    page = opened(line, cli, "views")
    page.size(360, 740)
    unnamed = """() =>
      [...document.querySelectorAll("button, input, select, textarea, meter, progress, iframe")]
      .filter(each => !each.closest(".xterm") && !each.textContent.trim() && !each.labels?.length
        && !each.getAttribute("aria-label") && !each.title).map(each => each.outerHTML.slice(0, 200))"""
    wide = "() => document.documentElement.scrollWidth - innerWidth"
    views = ("", "/recording", "/pulse", "/task", "/files", "/events")
    for place in (f"#/s/views{each}" for each in views):
        go(page, place)
        page.until("(place) => location.hash === place", place)
        page.until("() => document.querySelector('main') !== null")
        assert page.run(wide) <= 0, place
        assert page.run(unnamed) == [], place
    for place, view in (("#/", "session-list"), ("#/board", "task-board"), ("#/notices", "notice-settings")):
        go(page, place)
        page.until("(view) => document.querySelector(view) !== null", view)
        assert page.run(wide) <= 0, place
        assert page.run(unnamed) == [], place
    go(page, "#/s/views")
    page.until("() => document.querySelector('nav [aria-selected=true]') !== null")
    page.run(
        "() => document.querySelector('nav [aria-selected=true]').dispatchEvent("
        "new KeyboardEvent('keydown', {key: 'ArrowRight', bubbles: true, cancelable: true}))"
    )
    page.until("() => location.hash.endsWith('/recording')")
    page.close()
