"""Machines that share teams in a real PostgreSQL: one machine's changes count on all, and soon."""

from __future__ import annotations

import inspect
import itertools
import json
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

import psycopg
import pytest
from starlette.testclient import TestClient
from tests.machines.postgres import Postgres
from tests.runtime.access import test_access_keys
from tests.runtime.doors.walked_doors import TOKEN
from tests.runtime.serve.gated_doors import gated

from holdfast.base.home import Home
from holdfast.errors import InvalidArgument, NotPermitted, StoreError
from holdfast.runtime.access import joint_teams, teams
from holdfast.runtime.access.access_keys import LINK, AccessKeys
from holdfast.runtime.access.audit_trail import AuditedRequest, AuditTrail
from holdfast.runtime.access.name_owners import NameOwners
from holdfast.runtime.cluster import shared_teams
from holdfast.runtime.http_doors.admission import Admission
from holdfast.runtime.serve.server_app import ApiDoor
from holdfast.runtime.store import quotas
from holdfast.runtime.store.quotas import Quota, Quotas
from holdfast.snapshots.bundle.keys import Keys

NUMBERS = itertools.count()
SOON = 20.0
TESTS_OF_KEYS = {
    name: test
    for name, test in vars(test_access_keys).items()
    if name.startswith("test_") and list(inspect.signature(test).parameters) == ["tmp_path"]
}


@pytest.fixture
def url(postgres: Postgres) -> str:
    """Return the address of an empty database."""
    name = f"teams{next(NUMBERS)}"
    with psycopg.connect(postgres.dsn, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}".encode())
    return postgres.dsn.replace("///postgres?", f"///{name}?")


@pytest.fixture(autouse=True)
def ended(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Ask often, and stop asking at the end of a test."""
    monkeypatch.setattr(shared_teams, "POLL_SECONDS", 0.05)
    yield
    for each in shared_teams._opened.values():
        each.close()
    shared_teams._opened.clear()


def machine(folder: Path, url: str) -> Home:
    """Return the home of a machine that has joined."""
    home = Home(folder).create()
    joint_teams.join(home, url)
    return home


@pytest.fixture
def both(tmp_path: Path, url: str) -> tuple[Home, Home]:
    return machine(tmp_path / "a", url), machine(tmp_path / "b", url)


def soon(met: Callable[[], object]) -> None:
    """Wait until something is so; it takes half a second at most where nothing else runs."""
    until = time.monotonic() + SOON
    while not met():
        assert time.monotonic() < until
        time.sleep(0.02)


def _has_limit(home: Home, running: int) -> bool:
    return quotas.read(home.place).home.running == running


@pytest.mark.parametrize("name", TESTS_OF_KEYS)
def test_keys_are_in_postgresql_what_they_are_in_a_file(name: str, tmp_path: Path, url: str) -> None:
    """Each fact of a home's own keys holds for shared ones."""
    machine(tmp_path, url)
    TESTS_OF_KEYS[name](tmp_path)


def test_a_key_opens_and_ends_on_all_machines(both: tuple[Home, Home]) -> None:
    """Made on one of them, used on both, revoked on the other; visits of a link are counted together."""
    here, there = (AccessKeys(home.root) for home in both)
    made, text = here.create("ci", ["member"])
    assert there.opened_by(text.encode()) is not None
    soon(lambda: here.list()[0].used_at and there.list()[0].used_at)
    there.revoke("ci")
    assert there.opened_by(text.encode()) is None
    soon(lambda: here.opened_by(text.encode()) is None)
    assert not here.is_valid(made)
    _, link = here.create("guest", ["sessions:read"], kind=LINK, session="a" * 12)
    soon(lambda: there.visited(link.encode()))
    assert here.visited(link.encode()) is not None
    soon(lambda: [each.visits for each in there.list() if each.kind == LINK] == [2])


def test_a_name_that_all_machines_want_at_once_is_given_once(both: tuple[Home, Home]) -> None:
    """Of a key, of a person, and of a team."""
    made: list[str] = []
    people: list[str] = []
    of_teams: list[str] = []
    together = threading.Barrier(8)

    def want(number: int) -> None:
        home, who = both[number % 2], str(number)
        together.wait()
        wishes: tuple[tuple[list[str], Callable[[], Any]], ...] = (
            (made, lambda: AccessKeys(home.root).create("ci", ["member"])),
            (people, lambda: NameOwners(home.root).claim("ada", "corp", who, role="viewer", team="")),
            (of_teams, lambda: teams.create(home, "red")),
        )
        for got, wish in wishes:
            try:
                wish()
                got.append(who)
            except (InvalidArgument, NotPermitted):
                continue

    threads = [threading.Thread(target=want, args=(number,)) for number in range(8)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert [len(each) for each in (made, people, of_teams)] == [1, 1, 1]


def test_a_team_is_made_and_removed_on_all_machines(both: tuple[Home, Home]) -> None:
    """With its keys and its secret; one of its name later is another team, whose rows are not those."""
    here, there = both
    AccessKeys(there.root).has("")  # begins to follow
    red = teams.create(here, "red")
    _, text = AccessKeys(red.home.root).create("ci", ["member"])

    def known() -> object:
        teams.match(there)
        return teams.find(there, "red")

    soon(known)
    copied = teams.find(there, "red")
    assert copied is not None
    assert copied.secret == red.secret
    keys = AccessKeys(copied.home.root)
    assert keys.opened_by(text.encode()) is not None
    assert AccessKeys(there.root).opened_by(text.encode()) is None  # of the team alone
    gone = teams.begin_removal(here, "red")

    def closed() -> object:
        teams.match(there)
        return teams.find(there, "red") is None

    soon(closed)
    assert teams.names(there, teams.LEAVING) == ["red"]
    teams.erase(gone)
    again = teams.create(here, "red")
    assert AccessKeys(again.home.root).list() == []
    teams.erase(teams.begin_removal(there, "red"))
    AccessKeys(here.root).create("more", ["viewer"])
    soon(known)
    assert again.secret != red.secret


def test_limits_are_those_of_all_machines(both: tuple[Home, Home]) -> None:
    """Each machine counts its own sessions against them."""
    here, there = both
    AccessKeys(there.root).has("")
    quotas.write(here.place, Quotas(Quota(running=3), {"agent:ci": Quota(running=1)}))
    soon(lambda: quotas.read(there.place) == quotas.read(here.place))
    quotas.write(there.place, Quotas())
    AccessKeys(here.root).has("")
    soon(lambda: quotas.read(here.place) == Quotas())


def test_what_was_there_before_is_taken_along(tmp_path: Path, url: str) -> None:
    """Teams, keys and limits of a home that joins; a name in use stays with its owner there."""
    here, there = Home(tmp_path / "a").create(), Home(tmp_path / "b").create()
    red = teams.create(here, "red")
    _, of_red = AccessKeys(red.home.root).create("ci", ["member"])
    quotas.write(red.home.place, Quotas(Quota(running=7)))
    _, first = AccessKeys(here.root).create("ada", ["member"])
    _, second = AccessKeys(there.root).create("ada", ["admin"])
    _, own = AccessKeys(there.root).create("bob", ["viewer"])
    assert joint_teams.join(here, url) == []
    assert joint_teams.join(there, url) == ["ada"]
    for home in (here, there):
        keys = AccessKeys(home.root)
        found = [keys.opened_by(text.encode()) is not None for text in (first, second, own, of_red)]
        assert found == [True, False, True, False]
        team = teams.find(home, "red")
        assert team is not None
        assert AccessKeys(team.home.root).opened_by(of_red.encode()) is not None
        soon(partial(_has_limit, team.home, 7))
    assert joint_teams.join(there, url) == []
    stranger = Home(tmp_path / "c").create()
    teams.create(stranger, "red")
    with pytest.raises(InvalidArgument, match="a different team named red"):
        joint_teams.join(stranger, url)
    with pytest.raises(InvalidArgument, match="not the URL"):
        joint_teams.join(stranger, "mysql://db")
    joint_teams.leave(there)
    shared_teams._opened.pop(str(there.root)).close()  # as servers of it have ended
    AccessKeys(here.root).revoke("bob")
    assert AccessKeys(there.root).opened_by(own.encode()) is not None
    with pytest.raises(InvalidArgument, match="not shared"):
        joint_teams.leave(there)


def test_a_database_that_is_silent_opens_nothing(
    both: tuple[Home, Home], postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A key can have been revoked in the meantime. The server answers immediately, and lets it in again
    afterwards."""
    here, _ = both
    keys = AccessKeys(here.root)
    _, text = keys.create("ci", ["member"])

    async def api(_scope: Any, _receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"in"})

    client = TestClient(
        gated(ApiDoor(Admission(TOKEN, keys=keys), api), other=api), base_url="http://localhost:8420"
    )
    headers = {"authorization": f"Bearer {text}"}
    assert client.get("/v1/sessions", headers=headers).text == "in"
    monkeypatch.setattr(shared_teams, "OLD_SECONDS", 0.5)
    postgres.freeze()
    try:
        soon(lambda: client.get("/v1/sessions", headers=headers).status_code == 503)
        began = time.thread_time()
        answer = client.get("/v1/sessions", headers=headers)
        assert answer.json()["error"]["code"] == "store_error"
        assert time.thread_time() - began < 5
        with pytest.raises(StoreError, match="does not answer"):
            keys.opened_by(text.encode())
        # The server's own token is not in it.
        assert client.get("/v1/sessions", headers={"authorization": f"Bearer {TOKEN}"}).text == "in"
    finally:
        postgres.thaw()
    monkeypatch.setattr(shared_teams, "OLD_SECONDS", SOON)
    soon(lambda: client.get("/v1/sessions", headers=headers).status_code == 200)


def test_a_trail_that_its_owner_wrote_anew_is_found(both: tuple[Home, Home]) -> None:
    """The owner has the signing key of the home, and not the heads that the database has of before."""
    here, _ = both
    signer, _ = Keys(here).sending()

    def written(*actors: str) -> AuditTrail:
        trail = AuditTrail(here.root, signer)
        for each in actors:
            trail.note(AuditedRequest(time.time(), each, "k", "GET", "/v1", "s", 200, "r", 0.1))
        trail.close()
        return AuditTrail(here.root)

    trail = written("agent:a", "agent:b")
    trusts = lambda public: Keys(here).trusted(public) is not None  # noqa: E731
    assert trail.verify(trusts=trusts).faults == ()
    trail.close()
    (here.root / "audit.db").unlink()
    anew = written("agent:a")
    assert any("missing at the end" in each for each in anew.verify(trusts=trusts).faults)
    anew.close()
    anew = written("agent:c")
    assert any("differs from the noted one" in each for each in anew.verify(trusts=trusts).faults)


def test_the_address_is_for_its_owner_and_shown_without_the_password(
    tmp_path: Path, url: str, postgres: Postgres, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    from holdfast.runtime.cli import team_verbs

    monkeypatch.setenv("HOLDFAST_HOME", str(tmp_path / "home"))
    path = f"postgresql://someone:a%20secret@{quote(str(postgres.folder), safe='')}:{postgres.port}"
    shown = path.replace("someone", "holdfast") + f"/{url.partition('///')[2].partition('?')[0]}"
    team_verbs.store(url=shown, local=False, json=True)
    assert "secret" not in capsys.readouterr().out
    assert (tmp_path / "home" / "teams-store").stat().st_mode & 0o777 == 0o600
    team_verbs.store(url=None, local=True, json=True)
    assert json.loads(capsys.readouterr().out) == {"store": None}
