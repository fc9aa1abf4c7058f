"""Two people and agents of two teams work on one server, and none of them sees anything of the other team."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest
from tests.integration.conftest import Cli
from tests.integration.served import serving
from tests.integration.team_load import Load, TeamUnderLoad, figures

from holdfast.base.home import Home
from holdfast.runtime.access import teams
from holdfast.runtime.access.audit_trail import AuditTrail
from holdfast.runtime.api.controller import Holdfast
from holdfast.runtime.store import quotas
from holdfast.runtime.store.quotas import EACH, Quota, Quotas

SECONDS = float(os.environ.get("HOLDFAST_TEAM_SECONDS", "30"))
"""3600 for the long form."""
NAMES = ("red", "blue")
LIMITS = Quotas(Quota(running=5), {EACH: Quota(running=3)})


@pytest.mark.thorough
@pytest.mark.timeout(SECONDS + 600)
def test_two_teams_work_beside_each_other(
    home: Home, hf: Holdfast, cli: Cli, clear: Callable[[Holdfast], None], tell: Callable[[str], None]
) -> None:
    """Each tries all the time to reach the other, through each door, with ids, headers, names and tokens."""
    homes = {name: teams.create(home, name).home for name in NAMES}
    for each in homes.values():
        quotas.write(each.place, LIMITS)
    try:
        with serving(cli, home, "--audit") as server:
            found = {}
            for name in NAMES:
                keys = {}
                for who, words in (
                    ("person", ("--person", "--role", "member")), ("agent", ("--role", "maintainer")),
                    ("mcp", ("--role", "member")), ("e2b", ("--e2b", "--role", "maintainer")),
                ):  # fmt: skip
                    keys[who] = cli("--team", name, "access", "new", f"{who}-of-{name}", *words).out.strip()
                found[name] = TeamUnderLoad(name, server, keys)
            load = Load(server, found, SECONDS)
            load.run()
            tell(f"two teams, {SECONDS:g} s: {figures(load)}")
            assert not load.faults, load.faults
            assert sum(load.tried.values()) > SECONDS
        for name, other in zip(NAMES, reversed(NAMES), strict=True):
            _check_records(homes[name], name, other, found[other].mark)
            assert cli("--team", name, "audit", "verify").out.count(":") == 1
    finally:
        for each in homes.values():
            with Holdfast(each) as holdfast:
                clear(holdfast)


def _check_records(home: Home, name: str, other: str, foreign_mark: str) -> None:
    """Journals and the trail of a team have its own actors alone, and nothing that is the other's."""
    with Holdfast(home) as holdfast:
        for session in holdfast.sessions():
            entries = session.journal(limit=100_000)
            actors = {each.actor for each in entries if each.actor}
            assert {each for each in actors if f"-of-{other}" in each.partition("/")[0]} == set()
            assert any(f"-of-{name}" in each for each in actors)
            assert foreign_mark not in repr(entries)
    rows = AuditTrail(home.root).rows()
    assert {each.actor.partition("/")[0] for each in rows if f"-of-{name}" not in each.actor} == set()
