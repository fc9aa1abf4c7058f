"""A person's terminal joined to a session's over a URL, as at the session's machine."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.integration.served import Over, Served
from tests.integration.test_people import attach, leave
from tests.integration.test_serve_channels import Client

from holdfast import Session
from holdfast.base import polling

OPEN: list[Any] = []


@pytest.fixture(autouse=True)
def closed() -> Iterator[None]:
    """Hang up what a failed test has left attached."""
    yield
    while OPEN:
        OPEN.pop().close(force=True)


@pytest.fixture
def over(server: Served, tmp_path: Path) -> Over:
    return Over(server, tmp_path)


@pytest.fixture
def joined(over: Over) -> Callable[..., Any]:
    """Attach to the shared session over the URL."""

    def join(*options: str, **how: Any) -> Any:
        OPEN.append(attach(over, "shared", *options, **how))
        return OPEN[-1]

    return join


def test_typed_input_is_shown_over_a_url(joined: Callable[..., Any], shared: Session) -> None:
    terminal = joined()
    assert shared.terminal.lease().holder == "person:alice"
    terminal.send("echo sum $((40+2))\r")
    terminal.expect("sum 42")
    terminal.send("sleep 600\r")
    assert polling.until(lambda: "sleep 600" in shared.terminal.screen().text, 60)
    terminal.send("\x03")
    terminal.send("printf '%s-%s\\n' after wards\r")
    terminal.expect("after-wards")
    leave(terminal)
    assert polling.until(lambda: shared.terminal.lease().holder is None, 60)


def test_the_size_follows(joined: Callable[..., Any], shared: Session) -> None:
    terminal = joined(size=(30, 90))
    terminal.send("stty size\r")
    terminal.expect("30 90")
    terminal.setwinsize(40, 110)
    assert polling.until(lambda: (shared.shell().rows, shared.shell().cols) == (40, 110), 60)
    terminal.send("stty size\r")
    terminal.expect("40 110")
    leave(terminal)


def test_others_watch_and_dangerous_sequences_are_left_out(
    joined: Callable[..., Any], shared: Session
) -> None:
    """Output of a session cannot set the clipboard or the title of a terminal, wherever that is."""
    terminal, watcher = joined(), joined("--view", actor="person:bob")
    watcher.send("echo not typed\r")
    watcher.expect("not passed on")
    terminal.send("clear; printf 'ha\\033]52;c;ZXZpbA==\\007ha\\033]2;evil\\007ha %s\\n' end\r")
    watcher.expect("hahaha end")
    assert b"\x1b]52" not in watcher.before
    assert b"\x1b]2;" not in watcher.before
    leave(watcher)
    leave(terminal)
    assert "not typed" not in shared.terminal.screen().text


def test_captures_do_not_end_it(joined: Callable[..., Any], shared: Session) -> None:
    terminal = joined()
    taken = shared.snapshot()
    terminal.send("echo still $((1+1))\r")
    terminal.expect("still 2")
    leave(terminal)
    taken.remove()


def test_impossible_requests_are_refused(over: Over, server: Served) -> None:
    assert "not a terminal" in over("attach", "shared", code=1)
    with server.channels() as socket:
        client = Client(socket)
        client.open(1, "attach", args={"detach_key": "nonsense"})
        assert "nonsense" in client.end(1)["message"]
