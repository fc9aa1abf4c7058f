"""A person at the web page: the link, the terminal, buttons and tabs."""

from __future__ import annotations

from tests.integration.conftest import Cli
from tests.integration.doors.chromium import Page
from websockets.sync.client import ClientConnection

SAYS = "(text) => (document.body || {innerText: ''}).innerText.includes(text)"
SCREEN = "(text) => (document.querySelector('.xterm-rows') || {innerText: ''}).innerText.includes(text)"
PRESS = """(words) => {
  const there = [...document.querySelectorAll("button:enabled")];
  const made = there.filter(each => words.split("|").includes(each.innerText.trim()));
  if (made.length) made.at(-1).click();
  return made.length > 0;
}"""
POINT = """(label) => {
  const made = [...document.querySelectorAll(".point")].find(each => each.innerText.includes(label));
  if (made) made.click();
  return Boolean(made);
}"""
ANSWER = """(text) => {
  const field = document.querySelector(".question input");
  if (!field) return "";
  const kind = field.type;
  field.value = text;
  field.form.requestSubmit();
  return kind;
}"""
IN = "(place, text) => (document.querySelector(place) || {innerText: ''}).innerText.includes(text)"
PLAYED = """() => {
  const buffer = document.querySelector("recording-player").terminal.buffer.active, found = [];
  for (let n = 0; n < buffer.length; n++) found.push(buffer.getLine(n).translateToString(true));
  return found.join("\\n");
}"""
FOCUS = "() => document.querySelector('terminal-view textarea').focus()"


def link(cli: Cli, session: str) -> str:
    """Return a link to a session, as the command line prints it."""
    done = cli("--as", "person:ann", "open", session)
    assert done.code == 0, done.err
    return done.out.strip()


def opened(line: ClientConnection, cli: Cli, session: str) -> Page:
    """Return a page that shows a session's terminal."""
    page = Page(line)
    page.open(link(cli, session))
    page.until("() => document.querySelector('.xterm-rows') !== null")
    return page


def typing(page: Page) -> None:
    """Let the person of a page type."""
    page.until(PRESS, "Type|Take")
    page.until(SAYS, "you type")
    page.run(FOCUS)


def go(page: Page, place: str) -> None:
    """Follow the page's own address."""
    page.run("(place) => { location.hash = place; }", place)
