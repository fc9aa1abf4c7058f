"""A person signs in to the web page with a real browser and a real issuer, over TLS and on `localhost`."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import pytest
from tests.integration.doors.chromium import Page, browser
from tests.integration.doors.tls_front import tls_front
from tests.runtime.sign_in.real_issuer import SECRET, doors_of, issuing, listening

from holdfast.runtime.cli.served_doors import ServedDoors

pytestmark = [pytest.mark.timeout(600), pytest.mark.brief]

NAME = "holdfast.test"
SAYS = "(text) => (document.body || {innerText: ''}).innerText.includes(text)"
CLICK = """(word) => {
  const made = [...document.querySelectorAll("a, button")].find(each => each.innerText.trim() === word);
  if (made) setTimeout(() => made.click());
  return Boolean(made);
}"""
FILL = """(subject) => {
  const form = document.querySelector("form");
  if (!form || document.querySelector("holdfast-page")) return false;
  for (const each of form.querySelectorAll("input[type=text], input[type=password]")) each.value = subject;
  setTimeout(() => form.submit());
  return true;
}"""
INPUT = "() => document.querySelector('input[type=password]') !== null"
CONSENT = "() => document.querySelector('input[name=prompt][value=consent]') !== null"


@pytest.fixture(autouse=True)
def secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ISSUER_SECRET", SECRET)


def signed_in(page: Page, url: str) -> None:
    """Sign in at the page, which was asked for a session."""
    page.open(f"{url}/#/s/nothing")
    page.until(CLICK, "Sign in with corp")
    page.until(INPUT)
    page.until(FILL, "u-ada")
    page.until(CONSENT)
    page.until(FILL, "u-ada")
    page.until(SAYS, "There is no session of that name")
    assert page.run("() => location.href") == f"{url}/#/s/nothing"
    page.run("() => { location.hash = '#/'; }")
    page.until(SAYS, "person:ada")


def test_over_tls_the_cookie_outlives_the_tab_and_no_script_has_it(tmp_path: Path) -> None:
    """The page keeps its key in memory alone; to sign out ends the cookie and the key."""
    with ExitStack() as stack:

        def made(url: str) -> ServedDoors:
            port = int(url.rpartition(":")[2])
            front = stack.enter_context(tls_front(port, tmp_path, NAME))
            here = f"https://{front['E2B_DOMAIN']}"
            places.append(here)
            issuer = stack.enter_context(issuing(here))
            return doors_of(tmp_path, issuer.settings(), url=here)

        places: list[str] = []
        options = ("--ignore-certificate-errors", f"--host-resolver-rules=MAP {NAME} 127.0.0.1")
        _, doors = stack.enter_context(listening(made))
        line = stack.enter_context(browser(tmp_path / "profile", *options))
        (here,) = places
        page = Page(line)
        signed_in(page, here)
        assert "__Host-holdfast" in page.cookies(here)
        assert page.run("() => document.cookie") == ""
        assert page.run("() => sessionStorage.getItem('holdfast-key')") is None
        page.close()

        page = Page(line)
        page.open(f"{here}/")
        page.until(SAYS, "person:ada")
        (key,) = doors.callers.keys.list()
        page.until(CLICK, "Sign out")
        page.until(SAYS, "Sign in with corp")
        assert "__Host-holdfast" not in page.cookies(here)
        assert not doors.callers.keys.is_valid(key)


def test_on_localhost_no_cookie_is_left(tmp_path: Path) -> None:
    """A server on a different port of that name would get it; the tab alone has the key."""
    with ExitStack() as stack:

        def made(url: str) -> ServedDoors:
            here = url.replace("127.0.0.1", "localhost")
            places.append(here)
            return doors_of(tmp_path, stack.enter_context(issuing(here)).settings(), url=here)

        places: list[str] = []
        stack.enter_context(listening(made))
        line = stack.enter_context(browser(tmp_path / "profile"))
        (here,) = places
        page = Page(line)
        signed_in(page, here)
        assert set(page.cookies(here)) <= {"holdfast-begun"}
        assert page.run("() => sessionStorage.getItem('holdfast-key').slice(0, 3)") == "hp_"
        page.until(CLICK, "Sign out")
        page.until(SAYS, "Sign in with corp")
        assert page.run("() => sessionStorage.length") == 0
