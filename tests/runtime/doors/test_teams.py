"""Teams behind the doors of one server: anyone who is in one learns nothing of another, on any route."""

from __future__ import annotations

import asyncio
import json
import re
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import pytest
from fastapi.routing import APIRoute
from starlette.routing import Route, WebSocketRoute
from tests.runtime.doors.door_routes import ROUTES
from tests.runtime.doors.served_teams import OF_BLUE, OF_RED, TwoTeams, run_teams
from tests.runtime.doors.walked_doors import ONE, TOKEN, placements, presented

from holdfast.errors import InvalidArgument
from holdfast.runtime.access import teams
from holdfast.runtime.access.access_keys import AccessKeys
from holdfast.runtime.cli.served_teams import ServedTeam
from holdfast.runtime.e2b.port_traffic import PortTraffic
from holdfast.runtime.e2b.sandbox_access import SandboxTokens
from holdfast.runtime.page.page_keys import PageKeys
from holdfast.runtime.serve.access_key_requests import PageVisitor
from holdfast.runtime.store.store import Store

BEHIND: ContextVar[str] = ContextVar("team")
NOBODY = "9" * 12
"""An id that no session has."""


def bearer(text: str, *more: tuple[bytes, bytes]) -> list[tuple[bytes, bytes]]:
    return [(b"authorization", b"Bearer " + text.encode()), (b"content-type", b"application/json"), *more]


def _team(name: str) -> tuple[bytes, bytes]:
    return (b"holdfast-team", name.encode())


@pytest.fixture
def reached(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """Note behind the doors of which team requests arrive; the empty text is the server's own home."""
    found: set[str] = set()
    answer = ServedTeam.answer

    async def noted(self: ServedTeam, scope: Any, receive: Any, send: Any) -> None:
        token = BEHIND.set(self.team.name)
        try:
            await answer(self, scope, receive, send)
        finally:
            BEHIND.reset(token)

    async def arrived(self: Any, scope: Any, receive: Any, send: Any) -> None:
        found.add(BEHIND.get(""))
        if scope["type"] == "websocket":
            await send({"type": "websocket.close"})
            return
        await send({"type": "http.response.start", "status": 299, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    monkeypatch.setattr(ServedTeam, "answer", noted)
    for kind in (APIRoute, Route, WebSocketRoute):
        monkeypatch.setattr(kind, "handle", arrived)
    monkeypatch.setattr(PortTraffic, "__call__", arrived)
    return found


@pytest.mark.parametrize("row", ROUTES)
def test_each_credential_leads_to_its_own_team_alone(row: str, tmp_path: Path, reached: set[str]) -> None:
    """On every route of every door, whichever session the request names, in whichever header it is sent."""

    async def steps(both: TwoTeams) -> None:
        of_red = SandboxTokens(both.of("red").secret)
        of_blue = SandboxTokens(both.of("blue").secret)
        foreign = SandboxTokens(TOKEN)
        sent: list[tuple[str, str, set[str]]] = [
            (both.keys["blue"], OF_RED, {"blue"}),
            (both.keys["red"], OF_RED, {"red"}),
            (both.keys["red"], ONE, {"red"}),
            (both.of("red").doors.pages.key(PageVisitor("person:ann"), 2e9), OF_RED, {"red"}),
            (both.of("blue").doors.pages.key(PageVisitor("person:ann"), 2e9), OF_RED, {"blue"}),
            (PageKeys("other").key(PageVisitor("person:ann"), 2e9), OF_RED, set()),
            (of_red.access(OF_RED), OF_RED, {"red"}),
            (of_red.traffic(OF_RED), OF_RED, {"red"}),
            *((each, OF_RED, set()) for each in (of_blue.access(OF_RED), foreign.access(OF_RED))),
            *((each, OF_RED, set()) for each in (of_blue.traffic(OF_RED), foreign.traffic(OF_RED))),
            (both.keys["red"][:-4] + "0000", OF_RED, set()),
        ]
        seen: set[str] = set()
        is_open = row == "web page (`/`, `/page`)"  # its files are for everyone, and the same
        for name in (name.strip() for name in ROUTES[row].strip().splitlines()):
            method, path = name.split()[:2]
            method = "POST" if method == "ANY" else method
            for text, session, allowed in sent:
                there = "/v1/sessions" if path == "(port)" else re.sub(r"\{[^}]*\}", session, path)
                for number, placed in enumerate(placements(session)):
                    reached.clear()
                    for form in presented(text)[: None if number == 1 else 1]:
                        await both.ask(method, there, [*placed, *form])
                    seen.update(reached)
                    assert is_open or reached <= allowed, (name, text[:3], session, placed, reached)
            # The server's own token is for the server's home, or for the team that is named.
            path = "/v1/sessions" if path == "(port)" else re.sub(r"\{[^}]*\}", OF_BLUE, path)
            for number, placed in enumerate(placements(OF_BLUE)):
                for form in presented(TOKEN)[: None if number == 1 else 1]:
                    reached.clear()
                    await both.ask(method, path, [*placed, *form, _team("blue")])
                    assert reached <= {"blue"}, (name, placed, reached)
                    seen.update(reached)
                    reached.clear()
                    await both.ask(method, path, [*placed, *form, _team("none")])
                    await both.ask(method, path, [*placed, *form, _team("red"), _team("blue")])
                    assert not reached, (name, placed)
        is_server_wide = row.startswith(
            "sign-in"
        )  # of the home of the server, which lets nobody sign in here
        assert seen == set() if is_server_wide else "blue" in seen or is_open
        assert seen >= {"red", "blue"} or not row.startswith(("own", "ports", "E2B: proc"))

    run_teams(tmp_path, steps)


def test_ids_of_another_team_are_answered_as_unknown_ones(tmp_path: Path) -> None:
    """The whole answer of every path of our own API, for sessions and snapshots, by id, prefix and name."""

    async def steps(both: TwoTeams) -> None:
        Store.open(both.teams["red"].home.database).add_snapshot(OF_RED, "live", snapshot_id="5" * 12)
        Store.open(both.teams["red"].home.database).update_snapshot("5" * 12, state="ready")
        tried = 0
        for name in ROUTES["own API (`/v1`, `/health`, `/metrics`, channels)"].strip().splitlines():
            method, path = name.split()
            if "{session}" not in path and "{snapshot}" not in path:
                continue
            own = "{session}" if "{session}" in path else "{snapshot}"
            theirs, nobody = (OF_RED, NOBODY) if own == "{session}" else ("5" * 12, "8" * 12)
            answers = set()
            for ref in (theirs, nobody, theirs[:7], nobody[:7], "secret", "nobody"):
                there = re.sub(r"\{[^}]*\}", "x", path.replace(own, ref))
                body = b"{}" if method in ("POST", "PUT", "PATCH") else b""
                answer = await both.ask(method, there, bearer(both.keys["blue"]), body=body)
                text = re.sub(rb"\d{2,}|" + ref.encode(), b"ID", answer.body)
                answers.add((answer.status, text))
                assert b"secret" not in text.replace(b"secrets", b"")
            assert len(answers) == 1, (name, answers)
            # A WebSocket is refused by its end.
            assert next(iter(answers))[0] in (404, 422, 400, 501, *([None] if method == "WS" else [])), name
            tried += 1
        assert tried > 90

    run_teams(tmp_path, steps)


def test_the_same_name_is_another_session_in_each_team(tmp_path: Path) -> None:
    """Lists show what is of the team, and the server's own token reaches what it names."""

    async def steps(both: TwoTeams) -> None:
        for key, ids in ((both.keys["red"], {OF_RED}), (both.keys["blue"], {OF_BLUE})):
            answer = await both.ask("GET", "/v1/sessions", bearer(key))
            assert {each["id"] for each in json.loads(answer.body)} == ids
        for headers, id_ in (
            (bearer(both.keys["blue"]), OF_BLUE),
            (bearer(TOKEN), ONE),
            (bearer(TOKEN, _team("blue")), OF_BLUE),
        ):
            answer = await both.ask("GET", "/v1/sessions/sa", headers)
            assert json.loads(answer.body)["id"] == id_

    run_teams(tmp_path, steps)


def test_a_key_of_a_removed_team_opens_nothing(tmp_path: Path) -> None:
    """From its next request on, and answers under way are cut; its folder is not made again."""

    async def steps(both: TwoTeams) -> None:
        red = both.keys["red"]
        assert (await both.ask("GET", "/v1/sessions", bearer(red))).status == 200
        served = both.of("red")
        home = teams.begin_removal(both.home, "red")
        for headers in (bearer(red), bearer(red, _team("red"))):
            assert (await both.ask("GET", "/v1/sessions", headers)).status == 401
        answer = await both.ask("GET", "/v1/sessions", bearer(TOKEN, _team("red")))
        assert (answer.status, json.loads(answer.body)["error"]["code"]) == (404, "team_not_found")
        await asyncio.wait_for(served.ended(), 30)
        teams.erase(home)
        assert (await both.ask("GET", "/v1/sessions", bearer(red))).status == 401
        assert not home.root.exists()
        # A team of that name later is another one.
        teams.create(both.home, "red")
        assert (await both.ask("GET", "/v1/sessions", bearer(red))).status == 401
        assert (await both.ask("GET", "/v1/sessions", bearer(TOKEN, _team("red")))).status == 200
        assert (await both.ask("GET", "/v1/sessions", bearer(both.keys["blue"]))).status == 200

    run_teams(tmp_path, steps)


def test_a_team_that_is_made_while_the_server_runs(tmp_path: Path) -> None:
    """Its first key opens it immediately."""

    async def steps(both: TwoTeams) -> None:
        made = teams.create(both.home, "green")
        key = AccessKeys(made.home.root).create("ci", ["viewer"])[1]
        assert (await both.ask("GET", "/v1/sessions", bearer(key))).body == b"[]"
        answer = await both.ask("GET", "/v1/sessions", bearer(TOKEN, _team("green")))
        assert answer.body == b"[]"

    run_teams(tmp_path, steps)


def test_a_session_that_two_teams_have_is_reached_where_it_was_first(tmp_path: Path) -> None:
    """A receiver of a copy of a session under its id does not get the visitors of its ports."""

    async def steps(both: TwoTeams) -> None:
        both.add("blue", "copy", OF_RED)
        token = SandboxTokens(both.of("red").secret).traffic(OF_RED)
        headers = [
            (b"host", b"3000-" + OF_RED.encode() + b".localhost:8420"),
            (b"e2b-traffic-access-token", token.encode()),
        ]
        served = await both.served._team_of({"headers": headers})
        assert isinstance(served, ServedTeam)
        assert served.team.name == "red"

    run_teams(tmp_path, steps)


def test_figures_have_the_team_as_a_label(tmp_path: Path) -> None:
    """For holders of the server's token; a team's own key shows the team's own."""

    async def steps(both: TwoTeams) -> None:
        await both.ask("GET", "/v1/sessions", bearer(both.keys["red"]))
        text = (await both.ask("GET", "/metrics", bearer(TOKEN))).body.decode()
        wanted = 'holdfast_requests_total{method="GET",path="/v1/sessions",status="200",team="red"} 1.0'
        assert wanted in text
        assert text.count("# TYPE holdfast_requests_total") == 1
        text = (await both.ask("GET", "/metrics", bearer(both.keys["blue"]))).body.decode()
        assert "holdfast_requests_total" in text
        assert '"red"' not in text

    run_teams(tmp_path, steps)


@pytest.mark.parametrize("name", ["", "..", "a/b", "Red", "-a", "a" * 33, "red\n", ".red"])
def test_invalid_names_of_teams(name: str, tmp_path: Path) -> None:
    """A header leads to no other folder."""

    async def steps(both: TwoTeams) -> None:
        with pytest.raises(InvalidArgument):
            teams.create(both.home, name)
        answer = await both.ask("GET", "/v1/sessions", bearer(TOKEN, _team(name)))
        assert answer.status == 404
        with pytest.raises(InvalidArgument):
            teams.begin_removal(both.home, name)

    run_teams(tmp_path, steps)
