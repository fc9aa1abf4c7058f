"""People sign in to teams of one server by a certified issuer: each to their own, and to nothing else."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient
from tests.runtime.doors.walked_doors import TOKEN
from tests.runtime.sign_in.real_issuer import HERE, SECRET, Issuer, Visitor, doors_of, issuing
from tests.runtime.sign_in.test_sign_in import asks, away, back

from holdfast.errors import InvalidArgument
from holdfast.runtime.access import teams
from holdfast.runtime.access.access_keys import LINK, AccessKeys
from holdfast.runtime.access.audit_trail import AuditTrail
from holdfast.runtime.cli.served_teams import ServedTeams
from holdfast.runtime.client import device_login
from holdfast.runtime.http_doors import sign_in_wire
from holdfast.runtime.page.page_keys import PageKeys
from holdfast.runtime.sign_in.people_homes import PeopleHome
from holdfast.runtime.sign_in.sign_in_door import COOKIE
from holdfast.runtime.store.store import Store

RULES = [
    {"claim": "groups", "value": "red", "role": "maintainer", "team": "red"},
    {"claim": "groups", "value": "blue", "role": "viewer", "team": "blue"},
    {"claim": "groups", "value": "green", "role": "admin", "team": "green"},
    {"claim": "groups", "value": "staff", "role": "viewer"},
]
SESSIONS = {"": "0" * 12, "red": "1" * 12, "blue": "2" * 12}
"""A session of each team, and of the server's own home."""


@pytest.fixture(scope="module")
def issuer() -> Iterator[Issuer]:
    with issuing() as found:
        yield found


@pytest.fixture(autouse=True)
def secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ISSUER_SECRET", SECRET)


class Served:
    """A server with the teams red and blue, and a browser at it."""

    def __init__(self, folder: Path, *issuers: dict[str, Any], url: str = HERE, **more: Any) -> None:
        self.folder, self.url = folder, url
        main = doors_of(folder, *issuers, url=url, **more)
        self.home = main.callers.home
        self.teams = {name: teams.create(self.home, name) for name in ("red", "blue")}
        for name, id_ in SESSIONS.items():
            place = self.teams[name].home if name else self.home
            Store.open(place.database).add_session("work", "image", {}, session_id=id_, state="running")
        self.main = main
        self.served = ServedTeams(
            main, TOKEN, lambda home, secret: doors_of(folder, url=url, at=home, secret=secret)
        )

    @contextmanager
    def browser(self, peer: str = "127.0.0.1") -> Iterator[TestClient]:
        async def app(scope: Any, receive: Any, send: Any) -> None:
            if scope["type"] != "lifespan":
                await self.served(scope, receive, send)
                return
            async with self.served.running():
                for kind in ("startup", "shutdown"):
                    await receive()
                    await send({"type": f"lifespan.{kind}.complete"})

        with TestClient(app, base_url=self.url, follow_redirects=False, client=(peer, 1)) as found:
            yield found
        self.main.callers.close()

    def people(self, team: str) -> PeopleHome:
        assert self.main.sign_in is not None
        found = self.main.sign_in.team(team)
        assert found is not None
        return found

    def rows(self, team: str = "") -> list[tuple[str, str]]:
        """Return the rows of a trail about sign-ins, after the end of the server: actor and path."""
        place = self.teams[team].home if team else self.home
        found = AuditTrail(place.root).rows(most=100)
        return [(each.actor, each.path) for each in found if each.path.startswith("/sign-in")]


def entry_of(browser: TestClient, subject: str) -> str:
    """Sign in at the issuer; return the code with which the browser comes back."""
    answer = back(browser, Visitor(subject).follow(away(browser)))
    assert answer.status_code == 303, answer.text
    return str(answer.headers["location"]).partition("entry=")[2]


def reached(browser: TestClient, key: str) -> set[str]:
    """Return the ids of the sessions that a key reaches by a list, by id and by name."""
    found = {each["id"] for each in asks(browser, key, path="/v1/sessions").json()}
    for id_ in SESSIONS.values():
        answer = asks(browser, key, path=f"/v1/sessions/{id_}")
        assert answer.status_code == (200 if id_ in found else 404), answer.text
    named = asks(browser, key, path="/v1/sessions/work").json()["id"]
    return found | {named}


def test_a_person_of_one_team_is_signed_in_there_alone(issuer: Issuer, tmp_path: Path) -> None:
    """With the role of the rule; ids of another team are unknown, and the team's trail has the sign-in."""
    server = Served(tmp_path, issuer.settings(role=RULES))
    with server.browser() as browser:
        keys = {}
        for subject, team in (("u-ann", "red"), ("u-bob", "blue"), ("u-ben", "")):
            got = browser.post("/sign-in/key", json={"entry": entry_of(browser, subject)}).json()
            assert got["team"] == (team or None)
            assert reached(browser, got["key"]) == {SESSIONS[team]}
            keys[team] = got["key"]
        # A key of one team does not open another when the request says that it is for that one.
        for team in ("blue", "red"):
            headers = {"authorization": f"Bearer {keys['']}", "holdfast-team": team}
            assert browser.get("/v1/sessions", headers=headers).status_code == 401
        headers = {"authorization": f"Bearer {keys['red']}", "holdfast-team": "blue"}
        assert browser.get("/v1/sessions", headers=headers).status_code == 401
        answer = asks(browser, keys["blue"], "DELETE", f"/v1/sessions/{SESSIONS['blue']}")
        assert answer.json()["error"]["code"] == "not_permitted"
        ended = browser.post("/sign-in/end", json={}, headers={"authorization": f"Bearer {keys['red']}"})
        assert ended.status_code == 204
        assert asks(browser, keys["red"]).status_code == 401
        assert asks(browser, keys["blue"]).status_code == 200
        # A name is that of its first owner in each team for itself.
        assert [each.name for each in server.people("red").owners.list()] == ["ann"]
        # A rule for a team that does not exist lets nobody in.
        answer = back(browser, Visitor("u-gus").follow(away(browser)))
        assert (answer.status_code, "no team of gus exists here: green" in answer.text) == (403, True)
    paths = ("/sign-in/with/{issuer}/back", "/sign-in/key", "/sign-in/end")
    assert server.rows("red") == [("person:ann", path) for path in paths]
    assert {actor for actor, _ in server.rows("blue")} == {"person:bob"}
    assert {actor for actor, _ in server.rows()} == {"person:ben"}


def test_a_person_of_several_teams_chooses(issuer: Issuer, tmp_path: Path) -> None:
    """Among their own, with the browser in which they signed in, once."""
    server = Served(tmp_path, issuer.settings(role=RULES))
    with server.browser() as browser:
        code = entry_of(browser, "u-max")
        assert browser.post("/sign-in/key", json={"entry": code}).json() == {"teams": ["red", "blue"]}
        refused = set()
        for team in ("green", "none", ""):  # one with rules, one that exists nowhere, the server's own home
            code = entry_of(browser, "u-max")
            answer = browser.post("/sign-in/key", json={"entry": code, "team": team})
            assert answer.status_code == 403
            refused.add(answer.text.replace(f"'{team}'", "TEAM"))
            assert browser.post("/sign-in/key", json={"entry": code, "team": "red"}).status_code == 401
        assert len(refused) == 1
        code = entry_of(browser, "u-max")
        cookies = dict(browser.cookies)
        browser.cookies.clear()
        assert browser.post("/sign-in/key", json={"entry": code, "team": "red"}).status_code == 401
        for name, value in cookies.items():
            browser.cookies[name] = value
        assert browser.post("/sign-in/key", json={"entry": code, "team": "red"}).status_code == 401

        code = entry_of(browser, "u-max")
        assert "teams" in browser.post("/sign-in/key", json={"entry": code}).json()
        got = browser.post("/sign-in/key", json={"entry": code, "team": "blue"}).json()
        assert reached(browser, got["key"]) == {SESSIONS["blue"]}
        assert browser.post("/sign-in/key", json={"entry": code, "team": "red"}).status_code == 401
        assert [each.name for each in server.people("blue").owners.list()] == ["max"]
        assert server.people("red").owners.list() == []


def test_a_cookie_of_one_team_opens_nothing_of_another(tmp_path: Path) -> None:
    """Whatever is asked with it, and however it is altered."""
    url = "https://holdfast.test"
    with issuing(url) as found:
        server = Served(tmp_path, found.settings(role=RULES), url=url)
        with server.browser() as browser:
            back(browser, Visitor("u-ann").follow(away(browser)))
            of_red = browser.cookies[COOKIE]
            got = browser.post("/sign-in/key", json={"team": "blue"})
            assert got.json()["team"] == "red"
            assert reached(browser, got.json()["key"]) == {SESSIONS["red"]}
            assert browser.get(f"/v1/sessions/{SESSIONS['blue']}").status_code == 401

            entry = entry_of(browser, "u-max")
            chosen = browser.post("/sign-in/key", json={"entry": entry, "team": "blue"})
            assert 0 < chosen.json()["seconds"] <= 600
            of_blue = browser.cookies[COOKIE]
            assert of_blue != of_red
            assert reached(browser, browser.post("/sign-in/key", json={}).json()["key"]) == {SESSIONS["blue"]}
            _, red_id, red_secret = of_red.split("_", 2)
            _, blue_id, blue_secret = of_blue.split("_", 2)
            page = chosen.json()["key"]
            for text in (f"hf_{blue_id}_{red_secret}", f"hf_{red_id}_{blue_secret}", f"hf_{blue_id}_", page):
                browser.cookies.clear()
                browser.cookies[COOKIE] = text
                assert browser.post("/sign-in/key", json={}).status_code == 401, text
            # The key of a page under the id of a key of another team has not the mark of that team.
            for forged in (page.replace(blue_id, red_id), page.replace(blue_id, "0" * 12)):
                assert asks(browser, forged, path="/v1/sessions").status_code == 401


def test_a_person_logs_in_to_one_of_their_teams_at_a_terminal(
    issuer: Issuer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same identity token asks again with the choice, and is worthless afterwards."""
    server = Served(tmp_path, issuer.settings(role=RULES))
    sent: list[dict[str, Any]] = []
    with server.browser() as browser:

        def told(_client: Any, method: str, url: str, whose: str, **more: Any) -> dict[str, Any]:
            if whose != "the server":
                return real(_client, method, url, whose, **more)
            answer = browser.request(method, url.removeprefix(HERE), json=more.get("json"))
            if url.endswith(sign_in_wire.TOKENS):
                sent.append(more["json"])
            if answer.status_code >= 400:
                raise device_login._refusal(answer.status_code, answer.json(), whose)
            return dict(answer.json())

        real = device_login._told
        monkeypatch.setattr(device_login, "_told", told)

        def login(subject: str, **how: Any) -> Any:
            def enter(code: device_login.DeviceCode) -> None:
                Visitor(subject).follow(code.url, user_code=code.code)

            return device_login.login(HERE, None, enter, lambda _: None, **how)

        def exchange(**more: str) -> Any:
            return browser.post("/sign-in/tokens", json={**sent[-1], **more})

        of_blue = login("u-max", team="blue")
        assert of_blue.team == "blue"
        assert reached(browser, of_blue.key) == {SESSIONS["blue"]}
        time.sleep(1.1)  # two identity tokens of one person in one second can be the same
        with pytest.raises(InvalidArgument, match="several teams: red, blue"):
            login("u-max")
        stolen = dict(sent[-1])
        assert exchange(challenge="made-up", team="red").status_code == 403
        # Someone else: two identity tokens of one person in one second can be the same.
        of_red = login("u-mia", choose=lambda names: names[["red", "blue"].index(names[0])])
        assert reached(browser, of_red.key) == {SESSIONS["red"]}
        assert exchange(team="blue").status_code == 403  # it was used for red
        with pytest.raises(Exception, match="not in the team 'blue'"):
            login("u-ann", team="blue")
        # A token that asked for the choice counts for its own challenge alone.
        fresh = browser.post("/sign-in/challenges", json={}).json()["challenge"]
        again = browser.post("/sign-in/tokens", json={**stolen, "challenge": fresh, "team": "red"})
        assert again.status_code == 403


def test_a_proxy_names_people_of_teams(tmp_path: Path) -> None:
    """By the groups in its header, with the choice of a person of several."""
    named = {"header": "X-Forwarded-User", "groups": "X-Forwarded-Groups"}
    proxy = {**named, "from": ["10.0.0.5"], "role": RULES}
    server = Served(tmp_path, proxy=proxy)
    with server.browser(peer="10.0.0.5") as browser:

        def asked(groups: str, **body: str) -> Any:
            headers = {"x-forwarded-user": "ann", "x-forwarded-groups": groups}
            return browser.post("/sign-in/key", json=body, headers=headers)

        assert reached(browser, asked("red").json()["key"]) == {SESSIONS["red"]}
        assert asked("red, blue").json() == {"teams": ["red", "blue"]}
        assert reached(browser, asked("red, blue", team="blue").json()["key"]) == {SESSIONS["blue"]}
        assert asked("red", team="blue").status_code == 403
        assert asked("", team="blue").status_code == 403


def test_pages_are_of_the_team_of_their_link(tmp_path: Path) -> None:
    """By the server's token, by a key of the team, and by a shared link; a ticket opens one page, once."""
    server = Served(tmp_path)
    with server.browser() as browser:
        red = AccessKeys(server.teams["red"].home.root)
        _, of_key = red.create("ada", ["viewer"], kind="person")
        _, link = red.create("guest-1a2b", ["sessions:read"], kind=LINK, session=SESSIONS["red"])

        def ticket(**headers: str) -> str:
            return str(browser.post("/page/tickets", headers=headers).json()["ticket"])

        def page(text: str) -> Any:
            return browser.post("/page/keys", headers={"authorization": f"Bearer {text}"})

        of_token = {"authorization": f"Bearer {TOKEN}"}
        for text, team in (
            (ticket(**of_token), ""),
            (ticket(**of_token, **{"holdfast-team": "blue"}), "blue"),
            (ticket(authorization=f"Bearer {of_key}"), "red"),
        ):
            assert reached(browser, page(text).json()["key"]) == {SESSIONS[team]}
            assert page(text).status_code == 401
        key = page(link).json()["key"]
        assert asks(browser, key, path=f"/v1/sessions/{SESSIONS['red']}").status_code == 200
        for id_ in (SESSIONS["blue"], SESSIONS[""]):
            assert asks(browser, key, path=f"/v1/sessions/{id_}").status_code in (403, 404)
        # A ticket or key that is carried to another team has the wrong mark there.
        first, second = (server.people(name).pages for name in ("red", "blue"))
        carried = ticket(**of_token, **{"holdfast-team": "red"}).replace(first.token_id, second.token_id)
        assert page(carried).status_code == 401
        made = page(ticket(**of_token, **{"holdfast-team": "red"})).json()["key"]
        for other in (second.token_id, PageKeys(TOKEN).token_id):
            assert asks(browser, made.replace(first.token_id, other), path="/v1/sessions").status_code == 401


def test_people_of_a_team_that_is_removed_are_out(issuer: Issuer, tmp_path: Path) -> None:
    """Their keys and pages open nothing, and they are not signed in again."""
    server = Served(tmp_path, issuer.settings(role=RULES))
    with server.browser() as browser:
        got = browser.post("/sign-in/key", json={"entry": entry_of(browser, "u-ann")}).json()
        assert asks(browser, got["key"]).status_code == 200
        teams.begin_removal(server.home, "red")
        assert asks(browser, got["key"]).status_code == 401
        assert back(browser, Visitor("u-ann").follow(away(browser))).status_code == 403
        # Someone of two teams is in the one that remains, and is not asked.
        got = browser.post("/sign-in/key", json={"entry": entry_of(browser, "u-max")}).json()
        assert got["team"] == "blue"
        deadline = time.monotonic() + 30
        while "red" in server.served._served and time.monotonic() < deadline:
            browser.get("/health")
    assert "red" not in json.dumps(list(server.served._served))
