"""Two people and agents of two teams work on one server, and none of them sees anything of the other team.

`HOLDFAST_TEAM_SECONDS=3600 HOLDFAST_TEAM_PACE=10` is the long form, at about a third of a core.
"""

from __future__ import annotations

import json
import os
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from tests import packing
from tests.integration.conftest import Cli
from tests.integration.served import serving
from tests.integration.team_load import HOST, Load, TeamUnderLoad, figures
from tests.runtime.sign_in.real_issuer import SECRET, issuing

from holdfast.base.home import Home
from holdfast.engine.engine import Engine
from holdfast.runtime.access import teams
from holdfast.runtime.access.audit_trail import AuditTrail
from holdfast.runtime.api.controller import Holdfast
from holdfast.runtime.store import quotas
from holdfast.runtime.store.quotas import EACH, Quota, Quotas

SECONDS = float(os.environ.get("HOLDFAST_TEAM_SECONDS", "30"))
PACE = float(os.environ.get("HOLDFAST_TEAM_PACE", "1"))
PEOPLE = {"red": "ann", "blue": "bob"}
RUNNING, OF_A_USER = 5, 3
LIMITS = Quotas(Quota(running=RUNNING), {EACH: Quota(running=OF_A_USER)})


@pytest.mark.thorough
@pytest.mark.timeout(SECONDS + 600)
def test_two_teams_work_beside_each_other(
    home: Home, hf: Holdfast, cli: Cli, clear: Callable[[Holdfast], None], tell: Callable[[str], None]
) -> None:
    """Each tries all the time to reach the other, through each door, with ids, headers, names and tokens."""
    homes = {name: teams.create(home, name).home for name in PEOPLE}
    for each in homes.values():
        quotas.write(each.place, LIMITS)
    cli.environment["ISSUER_SECRET"] = SECRET
    url = f"https://{HOST}"
    try:
        with issuing(url) as issuer:
            rules = [
                {"claim": "groups", "value": name, "role": "maintainer", "team": name} for name in PEOPLE
            ]
            settings = home.root / "sign-in.toml"
            settings.write_text(_toml(url, issuer.settings(role=rules)))
            options = ("--audit", "--oidc", str(settings), "--host-name", HOST, "--origin", url)
            with serving(cli, home, *options) as server:
                found = {
                    name: TeamUnderLoad(name, server, _keys(cli, name), person)
                    for name, person in PEOPLE.items()
                }
                load = Load(server, found, SECONDS, PACE, OF_A_USER)
                with _watched(homes, load.fault):
                    load.run()
                tell(f"two teams, {SECONDS:g} s at pace {PACE:g}: {figures(load)}")
                assert not load.faults, load.faults
                assert sum(load.tried.values()) > SECONDS / PACE
                assert sum(load.failed.values()) * 100 <= sum(load.done.values()), load.failed
        _check_that_nothing_is_shared(list(homes.values()))
        for name, other in zip(PEOPLE, reversed(PEOPLE), strict=True):
            rows = _check_records(homes[name], name, found[other])
            assert cli("--team", name, "audit", "verify").out.count(":") == 1
            tell(f"trail of {name}: {rows} rows, verified")
    finally:
        for each in homes.values():
            with Holdfast(each) as holdfast:
                clear(holdfast)


def _keys(cli: Cli, name: str) -> dict[str, str]:
    kinds = (
        ("agent", ("--role", "maintainer")), ("mcp", ("--role", "member")),
        ("e2b", ("--e2b", "--role", "maintainer")),
    )  # fmt: skip
    return {
        who: cli("--team", name, "access", "new", f"{who}-of-{name}", *words).out.strip()
        for who, words in kinds
    }


def _toml(url: str, issuer: dict[str, object]) -> str:
    """Return the settings of sign-in as a file; inline tables of TOML need no more than `=` for `:`."""
    told = "\n".join(f"{name} = {_value(value)}" for name, value in issuer.items())
    return f"url = {json.dumps(url)}\n[[issuer]]\n{told}\n"


def _value(value: object) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{name} = {_value(each)}" for name, each in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_value, value)) + "]"
    return json.dumps(value)


@contextmanager
def _watched(homes: dict[str, Home], fault: Callable[[str], None]) -> Iterator[None]:
    """Count the running sessions of each team, as its store has them at one moment, all the time."""
    ended = threading.Event()

    def watch() -> None:
        databases = {
            name: sqlite3.connect(f"file:{home.database}?mode=ro", uri=True, check_same_thread=False)
            for name, home in homes.items()
        }
        while not ended.wait(0.5):
            for name, each in databases.items():
                asked = "SELECT count(*) FROM sessions WHERE state IN ('creating', 'running')"
                if (now := each.execute(asked).fetchone()[0]) > RUNNING:
                    fault(f"{now} sessions of {name} run, of {RUNNING}")
        for each in databases.values():
            each.close()

    watching = threading.Thread(target=watch)
    watching.start()
    try:
        yield
    finally:
        ended.set()
        watching.join()


def _check_that_nothing_is_shared(homes: list[Home]) -> None:
    """Each team has a checkpointer and a store of pages of its own, in which no file is also another's."""
    assert all(packing.settled(each) for each in homes)
    engine = Engine.connect()
    try:
        containers = [set(engine.containers(holdfast_home=each.digest)) for each in homes]
    finally:
        engine.close()
    pages = [
        {found.stat().st_ino for found in (each.root / "chunks").rglob("*") if found.is_file()}
        for each in homes
    ]
    for found in (containers, pages):
        assert all(found)
        assert not set.intersection(*found)


def _check_records(home: Home, name: str, other: TeamUnderLoad) -> int:
    """Journals and the trail of a team have its own actors alone, and nothing that is the other's."""
    own = {f"agent:{each}-of-{name}" for each in ("agent", "mcp", "e2b")} | {f"person:{PEOPLE[name]}"}
    with Holdfast(home) as holdfast:
        for session in holdfast.sessions():
            entries = session.journal(limit=1_000_000)
            assert {each.actor.partition("/")[0] for each in entries if each.actor} <= own | {"system"}
            assert any(each.actor for each in entries)
            assert other.mark not in repr(entries)
    rows = AuditTrail(home.root).rows(most=10_000_000)
    assert {each.actor.partition("/")[0] for each in rows} <= own
    assert {f"person:{PEOPLE[name]}", f"agent:agent-of-{name}"} <= {
        each.actor.partition("/")[0] for each in rows
    }
    return len(rows)
