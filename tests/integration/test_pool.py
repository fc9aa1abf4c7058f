"""A pool: sessions that are ready, each handed over once, and like any other session from then on."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from tests.integration.conftest import Cli

from holdfast.base import polling
from holdfast.errors import SessionExists
from holdfast.runtime.api.controller import Holdfast
from holdfast.runtime.lifecycle import (
    chosen_image,
    create,
    orphan_containers,
    pool_filler,
    pool_plan,
    waiting_session,
)
from holdfast.runtime.lifecycle.pool_plan import PoolSettings
from holdfast.runtime.operations.context import Context
from holdfast.runtime.sessions import identity_messages
from holdfast.runtime.sessions.session_options import SessionOptions
from holdfast.runtime.store.row_details import SessionDetails
from holdfast.runtime.store.waiting import WaitingSessions

_SECONDS = 120.0
_DRAW = "import random, os; print(random.random(), os.environ['HOLDFAST_NAME'], os.environ['HOSTNAME'])"


def filled(hf: Holdfast, size: int, **how: Any) -> None:
    """Fill the pool from this process, so that no other process does so at a random time."""
    pool_plan.write(hf.home, PoolSettings(size, **how))
    (hf.home.root / "pool.todo").touch()
    pool_filler.run(hf.context)
    assert pool_filler.trouble(hf.home) == ""
    assert len(hf.pool.waiting()) == size


@pytest.fixture
def pool(hf: Holdfast, monkeypatch: pytest.MonkeyPatch) -> Iterator[Holdfast]:
    monkeypatch.setattr(pool_filler, "start", lambda home: None)
    yield hf
    hf.pool.set(0)


def test_a_session_from_the_pool_is_like_any_other(pool: Holdfast, cli: Cli) -> None:
    """Name, host, journal, random numbers and kernel begin with it; a waiting one is not listed."""
    filled(pool, 2, kernel=True)
    assert pool.sessions() == []
    assert orphan_containers.unowned(pool.context) == []
    assert [one.kind for one in pool.keeping.collect_garbage() if one.kind in ("container", "folder")] == []
    done = cli("ls", "--all", "--json")
    assert [each["state"] for each in json.loads(done.out)] == ["waiting", "waiting"]
    ids = {each.id for each in pool.pool.waiting()}

    one, two = pool.new("one"), pool.new("two", labels={"a": "b"}, life="1h")
    assert {one.id, two.id} == ids
    assert (one.as_dict()["pool"], two.as_dict()["pool"]) == ({"used": True}, {"used": True})
    assert two.labels == {"a": "b"}
    for each in (one, two):
        text = each.exec(
            "echo $HOLDFAST_NAME $HOSTNAME $HOLDFAST_GENERATION; hostname; cat /etc/hostname"
        ).text
        assert text.split() == [each.name, each.name, "0", each.name, each.name]
        assert each.exec("getent hosts $(hostname)").text.split()[1:] == [each.name]
        facts = json.loads(each.exec("cat $HOLDFAST_IDENTITY").text)
        assert (facts["name"], facts["hostname"], facts["event"]) == (each.name, each.name, "started")
        assert each.exec("bash -lic 'echo \\\\h' 2>/dev/null; echo ${PS1@P}").text.count(each.id) == 0
        first = each.journal()[0]
        assert first.kind in ("created", "woken")
    drawn = [each.cell(_DRAW).stdout.split() for each in (one, two)]
    assert drawn[0][0] != drawn[1][0]
    assert [each[1:] for each in drawn] == [["one", "one"], ["two", "two"]]
    assert one.exec("echo $RANDOM $RANDOM").text != two.exec("echo $RANDOM $RANDOM").text
    assert one.exec("cat /proc/sys/kernel/random/boot_id >/dev/null; curl -m 2 -s two || echo none").text

    three = pool.new("three")
    assert three.as_dict()["pool"] == {"used": False, "why": "the pool is empty"}

    subprocess.run(["docker", "kill", one.row.container_id or ""], check=True, capture_output=True)
    again = pool.session("one").resume()
    assert again.exec("hostname; cat /etc/hostname; getent hosts one | wc -l").text.split() == [
        "one",
        "one",
        "1",
    ]
    (copy,) = two.snapshot().fork(1, "copy")
    assert copy.exec("hostname; echo $HOLDFAST_GENERATION").text.split() == [copy.name, "1"]


def test_each_is_handed_over_once_and_follows_the_options_in_use(pool: Holdfast) -> None:
    """With a burst of callers, a name that is taken, and different options."""
    filled(pool, 2)
    pool.new("taken", network="none", env={"A": "b"})
    with pytest.raises(SessionExists):
        waiting_session.hand_over(
            pool.context,
            "taken",
            chosen_image.choose(pool.context, SessionOptions.parse()),
            SessionDetails(),
        )
    assert len(pool.pool.waiting()) == 2
    with ThreadPoolExecutor(4) as threads:
        made = list(threads.map(lambda number: pool.new(f"burst-{number}"), range(4)))
    assert len({each.id for each in made}) == 4
    assert sorted(each.as_dict()["pool"]["used"] for each in made) == [False, False, True, True]
    assert {each.exec("hostname").text.strip() for each in made} == {f"burst-{number}" for number in range(4)}
    for each in made:
        each.remove()

    for number in range(6):
        pool.new(f"asked-{number}", network="none").remove()
    filled(pool, 1)
    assert pool.pool.waiting()[0].options["network"] == "none"
    other = pool.new("other")
    assert other.as_dict()["pool"]["why"] == "no session with these options waits"
    mine = pool.new("mine", network="none")
    assert mine.as_dict()["pool"] == {"used": True}
    assert mine.exec("ls /sys/class/net").text.split() == ["lo"]
    assert "mounted" in pool.new("mounts", mounts=["/usr/share:/data:ro"]).as_dict()["pool"]["why"]


@pytest.mark.thorough
def test_a_killed_transfer_leaves_nothing_and_is_not_handed_over(
    pool: Holdfast, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A container is killed, a caller dies while it takes one, a filler dies, memory is short."""
    filled(pool, 2)
    first, second = pool.store.waiting.all()
    subprocess.run(["docker", "kill", first.container_id], check=True, capture_output=True)
    made = pool.new("made")
    assert made.id == second.id
    assert pool.engine.inspect(first.container_id) is None

    filled(pool, 1)
    (waiting,) = pool.store.waiting.all()
    child = os.fork()
    if child == 0:  # dies between the transaction and the first request
        monkeypatch.setattr(identity_messages, "begin", lambda *_: os.kill(os.getpid(), signal.SIGKILL))
        create.create(Context(pool.home), "half")
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    with Holdfast(pool.home) as next_one:
        assert [each.name for each in next_one.sessions()] == ["made"]
        assert next_one.engine.inspect(waiting.container_id) is None
        assert next_one.pool.waiting() == []
    assert not (pool.home.run / waiting.id).exists()

    child = os.fork()
    if child == 0:  # dies while it makes one
        own = Context(pool.home)
        monkeypatch.setattr(WaitingSessions, "add", lambda *_: os.kill(os.getpid(), signal.SIGKILL))
        pool_plan.write(own.home, PoolSettings(1))
        (own.home.root / "pool.todo").touch()
        pool_filler.run(own)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    with Holdfast(pool.home) as next_one:
        assert set(next_one.engine.containers(holdfast_home=pool.home.digest, holdfast_role="session")) == {
            made.row.container_id
        }

    filled(pool, 1)
    monkeypatch.setattr(pool_filler, "_meminfo", lambda: "MemAvailable: 1000 kB\nMemTotal: 4194304 kB\n")
    (pool.home.root / "pool.todo").touch()
    pool_filler.run(pool.context)
    assert pool.pool.waiting() == []


def test_the_command_line_fills_it_in_the_background(hf: Holdfast, cli: Cli) -> None:
    """`pool set` returns immediately; `new` takes one, the next is made; `pool set 0` leaves nothing."""
    assert cli("pool", "set", "1").code == 0
    assert polling.until(lambda: len(hf.pool.waiting()) == 1, _SECONDS)
    done = cli("new", "taken", "--json")
    assert json.loads(done.out)["pool"] == {"used": True}
    assert polling.until(lambda: len(hf.pool.waiting()) == 1, _SECONDS)
    assert json.loads(cli("pool", "--json").out)["size"] == 1
    assert "1 of 1 sessions wait" in cli("pool").out
    assert cli("pool", "set", "0").code == 0
    assert polling.until(lambda: not hf.pool.at_work and hf.pool.waiting() == [], _SECONDS)
    assert cli("pool", "set", "101").err.startswith("holdfast: cannot keep 101 sessions in the pool")
    assert cli("pool", "empty").code != 0
    assert len(hf.engine.containers(holdfast_home=hf.home.digest, holdfast_role="session")) == 1
