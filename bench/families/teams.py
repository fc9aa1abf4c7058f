"""The cost of keys and teams for a server: its processor time for `exec true`, and for nothing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from bench.families.doors import posting
from bench.plan import Plan
from bench.rounds import Contender, take_turns
from bench.row import Row
from bench.stats import Series, Target
from bench.world import World
from holdfast import Holdfast
from holdfast.base.home import Home
from holdfast.runtime.access import teams
from holdfast.runtime.access.access_keys import AccessKeys
from holdfast.snapshots import service

FAMILY = "teams"
TEAMS = 10
BATCH = 40
SETTLE_SECONDS = 0.4
"""Until the rows of a batch are in the audit trail."""
IDLE_SECONDS = 12.0
"""Some rounds of each task that a server repeats."""
TOKEN = "the server's token, without teams"
KEY, AUDITED = "an access key, with ten teams", "the same, with --audit"
NO_TEAMS, IDLE_TEAMS = "a server without teams", "a server with ten teams"
TARGETS = {
    KEY: Target(1.1, "ratio", "a look at the file of keys, and the scopes of the operation"),
    IDLE_TEAMS: Target(1.1, "ratio", "looks at a few files every 5 s"),
}


def rows(world: World, plan: Plan) -> Iterator[Row]:
    """Measure, and yield rows of processor time."""
    with ExitStack() as stack:
        alone, token = stack.enter_context(_home(world, 0))
        several, key = stack.enter_context(_home(world, TEAMS))
        servers = {
            TOKEN: (stack.enter_context(_served(alone)), token),
            KEY: (stack.enter_context(_served(several)), key),
            AUDITED: (stack.enter_context(_served(several, "--audit")), key),
        }
        posts = {
            name: stack.enter_context(posting(url, {"Authorization": f"Bearer {text or _token(alone)}"}))
            for name, ((_, url), text) in servers.items()
        }
        contenders = {name: _calls(server.pid, posts[name]) for name, ((server, _), _) in servers.items()}
        found = take_turns(plan.execute, contenders, world.tell)
        baseline = Series(TOKEN, "s", found.pop(TOKEN))
        for name, samples in found.items():
            what = f"exec true over HTTP, {name}: the server's processor time"
            yield Row(
                FAMILY, what, Series("Holdfast", "s", samples), baseline=baseline, target=TARGETS.get(name)
            )
        idle = {NO_TEAMS: _idle(servers[TOKEN][0][0].pid), IDLE_TEAMS: _idle(servers[KEY][0][0].pid)}
        found = take_turns(plan.create, idle, world.tell)
        baseline = Series(NO_TEAMS, "s", found[NO_TEAMS])
        spent = Series("Holdfast", "s", found[IDLE_TEAMS])
        what = "an idle server with ten teams: processor time in each second"
        yield Row(FAMILY, what, spent, baseline=baseline, target=TARGETS[IDLE_TEAMS])


def _calls(process: int, post: Callable[[str, bytes], bytes]) -> Contender:
    """Return a contender whose turn is some calls, and whose sample is the processor time of one."""

    def turn() -> list[float]:
        before = spent(process)
        for _ in range(BATCH):
            if json.loads(post("/v1/sessions/work/exec", b'{"command": "true"}')).get("exit_code") != 0:
                raise RuntimeError("cannot run true over HTTP")
        time.sleep(SETTLE_SECONDS)
        return [(spent(process) - before) / BATCH]

    return turn


def _idle(process: int) -> Contender:
    def turn() -> list[float]:
        before, began = spent(process), time.monotonic()
        time.sleep(IDLE_SECONDS)
        return [(spent(process) - before) / (time.monotonic() - began)]

    return turn


def spent(process: int) -> float:
    """Return the seconds of processor time that all its threads have had, to the nanosecond (schedstat)."""
    tasks = Path(f"/proc/{process}/task").iterdir()
    return sum(int((each / "schedstat").read_text().split()[0]) for each in tasks) / 1e9


@contextmanager
def _home(world: World, count: int) -> Iterator[tuple[Home, str]]:
    """Yield a home with teams, and a key of the one with a session; without teams it has that itself."""
    home = Home(world.home.with_name(f"{world.home.name}-{count}")).create()
    made = [teams.create(home, f"team-{number}").home for number in range(count)]
    keys = [AccessKeys(each.root).create("ci", ["maintainer"])[1] for each in made]
    try:
        with Holdfast(made[0] if made else home) as holdfast:
            session = holdfast.new("work")
            try:
                yield home, keys[0] if keys else ""
            finally:
                session.remove()
                service.stop(holdfast.engine, holdfast.home)
    finally:
        subprocess.run(["rm", "-rf", str(home.root)], check=False)


@contextmanager
def _served(home: Home, *options: str) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    environment = {**os.environ, "HOLDFAST_HOME": str(home.root)}
    command = [sys.executable, "-m", "holdfast", "serve", "--listen", "0", "--rate", "0", *options]
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as process:
        try:
            assert process.stdout is not None
            yield process, process.stdout.readline().decode().split()[-1]
        finally:
            process.terminate()


def _token(home: Home) -> str:
    return (home.root / "server-token").read_text().strip()
