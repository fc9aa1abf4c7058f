"""Forgotten tabs: processor time of a server whose sessions are looked at while nothing happens."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.integration.conftest import Cli
from tests.integration.doors.chromium import browser
from tests.integration.doors.page_person import SCREEN, go, opened
from tests.integration.served import Served, serving
from websockets.sync.client import ClientConnection

from holdfast.base.home import Home
from holdfast.runtime.api.controller import Holdfast

pytestmark = pytest.mark.timeout(900)
COUNT = 20
SETTLED, SECONDS = 10.0, 60.0
SHARE = 0.05
"""Of one processor, in the mean over that time."""


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


def spent(server: Served) -> float:
    """Return the seconds of processor time that the server has had (proc_pid_stat(5))."""
    fields = Path(f"/proc/{server.process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def test_twenty_viewers_of_twenty_sessions_cost_little(
    line: ClientConnection, cli: Cli, server: Served, shared_hf: Holdfast
) -> None:
    """A tab on the terminal of each session, all of them connected and up to date."""
    names = [f"idle-{number}" for number in range(COUNT)]
    sessions = [shared_hf.new(each, network="none") for each in names]
    pages = []
    for number, session in enumerate(sessions):
        session.exec(f"echo ready-{number}-$((6*7))")
        page = opened(line, cli, session.name)
        page.until(SCREEN, f"ready-{number}-42")
        pages.append(page)
    go(pages[-1], "#/")
    pages[-1].until("(count) => document.querySelectorAll('a.session').length >= count", COUNT)
    go(pages[-1], f"#/s/{names[-1]}")
    time.sleep(SETTLED)
    before, began = spent(server), time.monotonic()
    time.sleep(SECONDS)
    share = (spent(server) - before) / (time.monotonic() - began)
    sys.stdout.write(f"{COUNT} sessions and {COUNT} viewers: {100 * share:.1f} % of a processor\n")
    for session in sessions:
        session.remove()
    assert share <= SHARE
