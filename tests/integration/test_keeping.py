"""Automatic captures, retention, quota, garbage and the tree, against a real engine."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from holdfast.errors import QuotaReached
from holdfast.runtime.api.controller import Holdfast
from holdfast.runtime.capture import activity, autosnapshot
from holdfast.runtime.lifetimes import session_ends
from holdfast.runtime.store.policy import Policy
from holdfast.runtime.store.quotas import Quota


def _auto(hf: Holdfast) -> list[tuple[str, str]]:
    """Return the triggers of the automatic snapshots, oldest first."""
    hf.context.background.settle()
    told = [row.details["auto"] for row in hf.store.snapshots() if "auto" in row.details]
    return [(one["trigger"], one["what"]) for one in told]


def test_a_session_is_captured_around_its_commands(hf: Holdfast) -> None:
    """Before a risky one, after a failure, after every few; the oldest go; commands are untouched."""
    work = hf.new("work", policy={"before_risky": True, "on_failure": True, "every": 3, "keep": 2})
    assert work.exec("mkdir /srv/x; echo kept > /srv/x/file").exit_code == 0
    assert _auto(hf) == []

    assert work.exec("rm -rf /srv/x").exit_code == 0
    assert _auto(hf) == [("risky", "rm -rf /srv/x")]
    before = hf.snapshots()[0]
    back = before.restore("back")
    assert back.exec("cat /srv/x/file").text == "kept\n"
    assert back.policy() == Policy()
    back.remove()

    assert work.exec("(exit 3)").exit_code == 3
    assert _auto(hf)[1:] == [("failure", "exit 3")]
    work.cell("1/0")
    assert _auto(hf) == [("failure", "exit 3"), ("failure", "ZeroDivisionError")]
    for number in range(3):
        assert work.exec(f"echo {number}").text == f"{number}\n"
    assert _auto(hf) == [("failure", "ZeroDivisionError"), ("every", "3 commands")]


def test_a_failed_capture_is_reported_once_and_fails_no_command(hf: Holdfast) -> None:
    """There is not enough room for snapshots: commands run all the same."""
    said: list[str] = []
    hf.context = replace(hf.context, progress=said.append)
    work = hf.new("work", policy={"on_failure": True, "quota": 1})

    codes = [work.exec("(exit 3)").exit_code for _ in range(2)]
    hf.context.background.settle()

    assert codes == [3, 3]
    assert hf.snapshots() == []
    told = [line.split(":")[0] for line in said if "automatic" in line]
    assert told == ["no automatic snapshot of session work"]
    assert [e.details["code"] for e in work.journal(kinds=["capture_failed"])] == ["quota_exceeded"]
    assert work.exec("echo fine").text == "fine\n"


def test_a_manual_snapshot_is_not_automatic(hf: Holdfast) -> None:
    """Also where nothing has happened since an automatic one, with which it shares everything."""
    work = hf.new("work")
    autosnapshot.take(hf.context, work.id, Policy(), "every", "1 command")
    mine = work.snapshot("mine")

    assert [("auto" in each.row.details, each.name == "mine") for each in hf.snapshots()] == [
        (True, False),
        (False, True),
    ]
    assert mine.reason is None


@pytest.mark.thorough
def test_only_unneeded_data_is_garbage(hf: Holdfast, cli: Any) -> None:
    """Leftovers go; snapshots that are pinned, manual, suspended in, or restored from stay, and work."""
    work = hf.new("work", policy={"keep": 9})
    kept = {}
    for name in ("pinned", "expired", "base"):
        work.exec(f"name={name}")
        autosnapshot.take(hf.context, work.id, Policy(kind="live", keep=9), "every", name)
        kept[name] = hf.snapshots()[-1]
    kept["pinned"].pin()
    fork = kept["base"].restore("fork")
    work.suspend()
    image = hf.engine.commit(
        fork.row.container_id or "",
        "holdfast/snapshot:000000000000",
        {
            "holdfast.home": hf.home.digest,
            "holdfast.role": "snapshot",
            "holdfast.snapshot": "000000000000",
            "holdfast.operation": "000000000000",
        },
    )
    labels = {
        "holdfast.home": hf.home.digest,
        "holdfast.role": "session",
        "holdfast.operation": "000000000000",
    }
    container = hf.engine.reserve("holdfast-000000000000", fork.row.image, labels)
    assert container is not None
    planted = [hf.home.root / place / "000000000000" for place in ("snapshots", "staging", "run")]
    for folder in planted:
        folder.mkdir()
        (folder / "file").write_text("x")
    (hf.home.locks / "snapshot-000000000000.lock").touch()
    hf.session("work").policy(keep=0)

    told = cli("gc", "--dry-run", "--json").json
    assert all(folder.exists() for folder in planted)
    assert {one["name"] for one in told if one["kind"] == "snapshot"} == {kept["expired"].name}
    done = [one for one in cli("gc", "--json").json if one["kind"] != "pages"]

    # Removing the expired snapshot also removes images without one.
    swept = [one for one in told if one["kind"] != "image"]
    assert [(one["kind"], one["name"]) for one in done if one["kind"] != "image"] == [
        (one["kind"], one["name"]) for one in swept
    ]
    assert not any(folder.exists() for folder in planted)
    assert hf.engine.images.id(image) is None
    assert hf.engine.inspect(container) is None
    assert {each.id for each in hf.snapshots()} >= {kept["pinned"].id, kept["base"].id}
    assert kept["expired"].id not in {each.id for each in hf.snapshots()}
    assert hf.session("work").resume().exec("echo $name").text == "base\n"
    assert kept["pinned"].restore("again").exec("echo $name").text == "pinned\n"
    assert fork.exec("echo $name").text == "base\n"
    assert cli("gc", "--dry-run", "--json").json == []


def test_idle_sessions_are_captured_by_a_pass(hf: Holdfast, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once after a while without activity; not again while there is none."""
    work = hf.new("work", policy={"idle": "1h"})
    work.exec("step=1")
    assert hf.keeping.capture_idle() == []
    later = SimpleNamespace(time=lambda: time.time() + 7200)
    monkeypatch.setattr(activity, "time", later)

    assert hf.keeping.capture_idle() == ["work"]
    assert hf.keeping.capture_idle() == []
    assert _auto(hf) == [("idle", "idle for long")]
    work.exec("step=2")
    assert len(_auto(hf)) == 1
    work.exec("step=3")  # as if nothing was done before it for two hours
    assert len(_auto(hf)) == 2


@pytest.mark.thorough
def test_the_command_line_shows_and_keeps(shared_hf: Holdfast, shared: Any, shared_cli: Any) -> None:
    """The table, the tree with its commands, pins, policies and quotas, for people and programs."""
    shared.exec("true # made something")
    taken = shared.snapshot("tree-top", "filesystem", reason="for the tree")
    shared.exec("true # made more")

    table = shared_cli("snapshots")
    assert "tree-top" in table.out
    assert "for the tree" in table.out
    tree = shared_cli("snapshots", "--tree", "--session", "shared").out.splitlines()
    top = next(number for number, line in enumerate(tree) if "● tree-top" in line)
    assert "true # made something" in tree[top - 1]
    assert "true # made more" in tree[top + 1]
    assert tree[-1].endswith("▶ shared  running")
    told = shared_cli("snapshots", "--tree", "--json").json
    mine = next(one for one in told["snapshots"] if one["name"] == "tree-top")
    assert mine["ran"]["commands"] == 1
    assert (mine["reason"], mine["actor"], mine["auto"]) == ("for the tree", "agent", None)
    assert shared_cli("pin", "tree-top", "--json").json[0]["pinned"]
    assert not shared_cli("unpin", "tree-top", "--json").json[0]["pinned"]
    assert shared_cli("policy", "shared", "--every", "20", "--idle", "10m", "--json").json["policy"] == {
        "every": 20,
        "idle": 600.0,
    }
    assert "after every 20 commands" in shared_cli("policy", "shared").out
    assert shared_cli("policy", "shared", "--off", "--json").json["policy"] == {}
    assert shared_cli("quota", "5g", "--json").json["quota"] == 5 << 30
    assert shared_cli("quota", "none", "--json").json["quota"] is None
    assert shared_cli("policy", "shared", "--idle", "soon", "--json").error["code"] == "invalid_argument"
    assert Path(shared_hf.home.root, "settings.json").exists()
    taken.remove()


def test_a_home_keeps_its_quota_without_a_server(hf: Holdfast) -> None:
    """Sleeping sessions are not counted; a waking or resumption is, and a refused one leaves nothing."""
    hf.keeping.limits = Quota(running=1, forks=2)
    work = hf.new("work", life="1h")
    containers = hf.engine.containers(holdfast_home=hf.home.digest)
    with pytest.raises(QuotaReached, match="1 running sessions"):
        hf.new("more")
    with pytest.raises(QuotaReached, match="2 in one call"):
        work.fork(3)
    assert hf.engine.containers(holdfast_home=hf.home.digest) == containers
    assert hf.store.operations.open() == []

    session_ends.put_to_sleep(hf.context, work.row, "life")
    more = hf.new("more")
    with pytest.raises(QuotaReached):
        work.exec("true")
    assert hf.session("work").state == "suspended"
    assert hf.store.operations.open() == []
    more.suspend()
    assert work.exec("echo awake").text == "awake\n"
    with pytest.raises(QuotaReached):
        hf.session("more").resume()

    hf.keeping.limits = Quota(commands=0.001)
    assert work.exec("true").exit_code == 0
    for begin in (work.exec, work.cell, work.detach, lambda _: work.programs.start(["true"])):
        with pytest.raises(QuotaReached, match="a further command"):
            begin("true")
