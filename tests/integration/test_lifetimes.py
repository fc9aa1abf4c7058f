"""The end of life and the sleep of sessions on a real engine, and the causes that wake them.

Nothing here waits for a clock: lives are moved to their end, times without use made as short as they can be.
"""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest
from tests.integration.served import Served

from holdfast import RemoteHoldfast
from holdfast.base import polling
from holdfast.base.home import Home
from holdfast.errors import HoldfastError, SessionAsleep, SessionError, SessionNotFound
from holdfast.runtime.api.controller import Holdfast
from holdfast.runtime.api.session import Session
from holdfast.runtime.store import lifetime

BRIEF = 0.001
"""Seconds without use that every session has had by the time it is asked."""


def _unused(hf: Holdfast, session: Session) -> None:
    """Have the session sleep at the next look unless something runs in it."""
    lifetime.change(hf.store, session.id, lambda kept: replace(kept, idle=BRIEF))


def _over(hf: Holdfast, session: Session) -> None:
    """Move the end of a session into the past."""
    lifetime.change(hf.store, session.id, lambda kept: replace(kept, ends_at=1.0))


def _asleep(hf: Holdfast, session: Session, why: str = "idle") -> None:
    assert hf.keeping.carry_out_lifetimes() == [(session.name, "suspended")]
    # Not again while it is tested what wakes it, and not by a change of its own.
    lifetime.change(hf.store, session.id, lambda kept: replace(kept, idle=1800))
    _still(hf, session, why)


def _still(hf: Holdfast, session: Session, why: str = "idle") -> None:
    now = hf.session(session.id)
    assert (now.state, (now.as_dict()["lifetime"] or {})["asleep"]) == ("suspended", why)


def test_a_session_sleeps_when_it_is_not_used_and_use_wakes_it(
    shared_hf: Holdfast, make_cli: Any, shared_home: Home
) -> None:
    hf, cli = shared_hf, make_cli(shared_home)
    made = cli("new", "sleeper", "--life", "2h", "--then", "remove", "--idle", "30m", "--json").json
    assert {key: made["lifetime"][key] for key in ("life", "then", "idle")} == {
        "life": 7200,
        "then": "remove",
        "idle": 1800,
    }
    work = hf.session("sleeper")
    work.exec("kept=here; cd /srv")
    work.cell("cell = 1")  # a kernel that still starts is one that runs
    assert hf.keeping.carry_out_lifetimes() == []  # it was used just now

    job = work.detach("exec sleep 1000")
    _unused(hf, work)
    assert hf.keeping.carry_out_lifetimes() == []  # something runs in it
    job.signal("KILL")
    job.wait()
    _asleep(hf, work)

    # Looking wakes nobody.
    for look in (work.pulse, lambda: work.terminal.screen(), lambda: list(work.events()), work.jobs):
        with pytest.raises(SessionAsleep, match="it sleeps"):
            look()
    assert cli("pulse", "sleeper").code != 0
    assert "asleep" in cli("ls").out
    assert cli("ls", "--json").json[0]["lifetime"]["ends_at"] is not None  # its clock goes on
    _still(hf, work)

    # Several at the same time wake it once, by handles of before and of now.
    generation = work.row.generation
    handles = [work, hf.session("sleeper"), hf.session("sleeper")]
    with ThreadPoolExecutor(3) as threads:
        said = list(threads.map(lambda one: one.exec("echo $kept $PWD", busy_wait=60).text, handles))
    assert said == ["here /srv\n"] * 3
    assert hf.session("sleeper").row.generation == generation + 1
    assert [each.details["why"] for each in work.journal(kinds=["suspended"])] == ["idle"]

    for use in (
        ("cell", "sleeper", "print('cell' if cell else '')"),
        ("run", "sleeper", "--", "echo", "run"),
    ):
        _unused(hf, work)
        _asleep(hf, work)
        done = cli(*use)
        assert (done.code, done.out.strip()) == (0, use[0]), done.err
    assert len(hf.snapshots()) == 1  # what earlier sleeps had captured is gone


def test_a_session_suspended_by_a_person_stays_so_and_a_failed_wake_leaves_it_asleep(
    shared_hf: Holdfast,
) -> None:
    hf = shared_hf
    work = hf.new("asked", life="1h", idle="30m")
    work.suspend()
    with pytest.raises(SessionError, match="it is suspended") as refused:
        work.exec("true")
    assert "holdfast resume asked" in refused.value.hint
    assert hf.keeping.carry_out_lifetimes() == []
    assert work.resume().lifetime().ends_at is not None

    _over(hf, work)
    _asleep(hf, work, "life")
    manifest = hf.home.snapshots / str(hf.session("asked").row.parent_snapshot_id) / "manifest.json"
    aside = manifest.rename(manifest.with_suffix(".aside"))
    with pytest.raises(HoldfastError) as failed:
        work.exec("true")
    assert "still sleeps" in failed.value.hint
    _still(hf, work, "life")
    assert [each.kind for each in work.journal(kinds=["wake_failed"])] == ["wake_failed"]
    aside.rename(manifest)
    hf.verify()
    work.send("woken=typed\n")
    assert work.exec("echo $woken").text == "typed\n"
    assert work.lifetime().ends_at is not None  # it lives again

    # Its end is announced, and what nobody asked for goes with it.
    work.lifetime(life="1h", then="remove")
    soon = time.time() + 200
    lifetime.change(hf.store, work.id, lambda kept: replace(kept, ends_at=soon))
    assert hf.keeping.carry_out_lifetimes() == []
    assert [each.kind for each in work.events(kinds=["life_ending"])] == ["life_ending"]
    assert hf.keeping.carry_out_lifetimes() == []
    assert len(work.journal(kinds=["life_ending"])) == 1
    _over(hf, work)
    assert hf.keeping.carry_out_lifetimes() == [("asked", "removed")]
    with pytest.raises(SessionNotFound):
        hf.session("asked")
    left_over = [each.row.details.auto for each in hf.snapshots() if each.row.session_id == work.id]
    assert left_over == [None]  # a person had suspended it


def test_a_server_ends_sessions_and_wakes_sleeping_ones_for_requests(
    server: Served, remote: RemoteHoldfast, shared: Session
) -> None:
    there = remote.session("shared")
    there.exec("kept=there")
    assert there.lifetime(idle="1h", life=1).idle == 3600
    assert polling.until(lambda: there.refresh().state == "suspended", 60, 0.2)
    server.get(f"/v1/sessions/{shared.id}")
    assert (
        server.call("GET", f"/v1/sessions/{shared.id}/pulse", status=409)["error"]["code"] == "session_asleep"
    )
    assert there.exec("echo $kept").text == "there\n"

    # By the doors of others as well; a list, and the question whether it lives, are no uses.
    there.lifetime(life=1)
    assert polling.until(lambda: there.refresh().state == "suspended", 60, 0.2)
    assert "holdfast-shared" not in [each["name"] for each in server.get("/api/kernels")]
    key = {"x-api-key": server.token}
    assert server.call("GET", "/swerex/shared/is_alive", headers=key)["is_alive"]
    assert there.refresh().state == "suspended"
    server.post("/api/kernels", {"name": "holdfast-shared"}, 201)
    assert there.refresh().state == "running"
    assert there.exec("echo $kept").text == "there\n"
    found = there.refresh().lifetime(idle=None, life=None)
    assert (found.ends_at, found.idle) == (None, None)
