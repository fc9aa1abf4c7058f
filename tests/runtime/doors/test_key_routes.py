"""Keys that are made, listed and revoked over HTTP, and the trail that is read there."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
from tests.runtime.doors.served_teams import OF_BLUE, OF_RED, TwoTeams, run_teams
from tests.runtime.doors.test_teams import bearer
from tests.runtime.doors.walked_doors import TOKEN

from holdfast.runtime.access import permissions
from holdfast.runtime.access.access_keys import AccessKeys
from holdfast.runtime.access.audit_trail import AuditedRequest, AuditTrail


async def asked(
    both: TwoTeams, key: str, method: str, path: str, body: Any = None, query: str = "", **headers: str
) -> tuple[int | None, Any]:
    """Return the status of an answer, and what it says."""
    more = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    sent = json.dumps(body).encode() if body is not None else b""
    answer = await both.ask(method, path, bearer(key, *more), query, body=sent)
    return answer.status, json.loads(answer.body) if answer.body else None


async def made(both: TwoTeams, key: str, name: str, *scopes: str, **more: Any) -> Any:
    """Make a key, which must be possible."""
    status, told = await asked(both, key, "POST", "/v1/keys", {"name": name, "scopes": scopes, **more})
    assert status == 201, told
    return told


def test_a_key_makes_keys_that_do_no_more_under_its_own_name(tmp_path: Path) -> None:
    """In its team alone; journal and trail count their work to their maker, whatever a header says."""

    async def steps(both: TwoTeams) -> None:
        admin = both.keys["red"]
        told = await made(both, admin, "nightly", "member", "keys:*")
        assert (told["name"], told["kind"], told["state"]) == ("ci/nightly", "agent", "valid")
        assert set(told["scopes"]) == {*permissions.ROLES["member"], "keys:read", "keys:change"}
        status, rows = await asked(both, told["key"], "GET", "/v1/sessions")
        assert (status, [each["id"] for each in rows]) == (200, [OF_RED])
        assert (await asked(both, told["key"], "GET", f"/v1/sessions/{OF_BLUE}"))[0] == 404
        keys = AccessKeys(both.teams["red"].home.root)
        found = keys.opened_by(told["key"].encode())
        assert found is not None
        assert (found.actor, found.acts_as("person:ada")) == ("agent:ci/nightly", "agent:ci/nightly/ada")
        # A key that it makes is weaker again, and of a kind and end that are not its choice.
        below = await made(both, told["key"], "x", "viewer", person=True)
        assert (below["name"], below["kind"]) == ("ci/nightly/x", "agent")
        for scopes in (["admin"], ["maintainer"], ["secrets:use"], ["viewer", "host:mounts"], ["audit:*"]):
            status, refused = await asked(
                both, told["key"], "POST", "/v1/keys", {"name": "more", "scopes": scopes}
            )
            assert (status, refused["error"]["code"]) == (403, "not_permitted"), scopes
        for name in ("ci", "../ci", "x/y", "person:ada", "", "a" * 33):
            status, _ = await asked(both, admin, "POST", "/v1/keys", {"name": name, "scopes": ["viewer"]})
            assert status == (201 if name == "ci" else 422), name
        # The texts of keys are in the answers that make them alone.
        status, listed = await asked(both, admin, "GET", "/v1/keys")
        assert [each["name"] for each in listed] == ["ci", "ci/nightly", "ci/nightly/x", "ci/ci"]
        secret = told["key"].rpartition("_")[2]
        assert secret not in json.dumps(listed)
        assert (await asked(both, both.keys["blue"], "GET", "/v1/keys"))[1][0]["name"] == "ci"
        assert len((await asked(both, both.keys["blue"], "GET", "/v1/keys"))[1]) == 1

    run_teams(tmp_path, steps)


def test_a_key_that_is_made_ends_with_its_maker(tmp_path: Path) -> None:
    """At the same time at the latest, and at once when the maker is revoked."""

    async def steps(both: TwoTeams) -> None:
        keys = AccessKeys(both.teams["red"].home.root)
        _, brief = keys.create("brief", ["admin"], seconds=600)
        for wish in (None, 10**8):
            told = await made(both, brief, f"of-{wish or 0}", "viewer", seconds=wish)
            assert time.time() < told["expires_at"] <= time.time() + 600
        assert (await made(both, brief, "sooner", "viewer", seconds=5))["expires_at"] <= time.time() + 5
        child = await made(both, brief, "child", "viewer", "keys:*")
        grandchild = await made(both, child["key"], "child", "viewer")
        keys.revoke("brief")
        for text in (brief, child["key"], grandchild["key"]):
            assert (await asked(both, text, "GET", "/v1/sessions"))[0] == 401
        assert (await asked(both, both.keys["red"], "GET", "/v1/sessions"))[0] == 200

    run_teams(tmp_path, steps)


def test_a_key_revokes_no_key_that_does_more(tmp_path: Path) -> None:
    """Nor one of another team; the server's own token revokes each."""

    async def steps(both: TwoTeams) -> None:
        admin = AccessKeys(both.teams["red"].home.root).list()[0].id
        foreign = AccessKeys(both.teams["blue"].home.root).list()[0].id
        weak = await made(both, both.keys["red"], "weak", "keys:*")
        peer = await made(both, both.keys["red"], "peer", "keys:read")
        status, told = await asked(both, weak["key"], "DELETE", f"/v1/keys/{admin}")
        assert (status, told["error"]["code"]) == (403, "not_permitted")
        assert (await asked(both, weak["key"], "DELETE", f"/v1/keys/{foreign}"))[0] == 400
        assert (await asked(both, weak["key"], "DELETE", "/v1/keys/ci"))[0] == 422
        status, told = await asked(both, weak["key"], "DELETE", f"/v1/keys/{peer['id']}")
        assert (status, told["state"]) == (200, "revoked")
        assert (await asked(both, weak["key"], "DELETE", f"/v1/keys/{peer['id']}"))[0] == 400
        assert (await asked(both, TOKEN, "DELETE", f"/v1/keys/{admin}", holdfast_team="red"))[0] == 200
        assert (await asked(both, both.keys["red"], "GET", "/v1/sessions"))[0] == 401
        assert (await asked(both, both.keys["blue"], "GET", "/v1/sessions"))[0] == 200

    run_teams(tmp_path, steps)


@pytest.mark.parametrize("role", ["viewer", "member", "maintainer"])
def test_other_roles_neither_see_nor_make_keys_and_do_not_read_the_trail(role: str, tmp_path: Path) -> None:
    """Nor does an admin whose key is for one session."""

    async def steps(both: TwoTeams) -> None:
        keys = AccessKeys(both.teams["red"].home.root)
        for text in (
            keys.create("some", [role])[1], keys.create("one", ["admin"], session=OF_RED)[1],
        ):  # fmt: skip
            for method, path, body in (
                ("GET", "/v1/keys", None),
                ("POST", "/v1/keys", {"name": "x", "scopes": ["viewer"]}),
                ("DELETE", f"/v1/keys/{keys.list()[0].id}", None),
                ("GET", "/v1/audit", None),
            ):
                status, told = await asked(both, text, method, path, body)
                assert (status, told["error"]["code"]) == (403, "not_permitted"), (method, path)

    run_teams(tmp_path, steps)


def test_the_trail_is_read_by_who_may(tmp_path: Path) -> None:
    """Rows of the own team, chosen by time, actor and session."""

    async def steps(both: TwoTeams) -> None:
        for number, name in enumerate(("red", "blue", "red")):
            trail = AuditTrail(both.teams[name].home.root)
            actor = f"agent:{name}{number}"
            trail.note(
                AuditedRequest(
                    1000.0 + number, actor, "k", "GET", "/v1/sessions", f"s{number}", 200, "r", 0.1
                )
            )
            trail.close()
        auditor = await made(both, both.keys["red"], "auditor", "audit:read")
        for query, actors in (
            ("", ["agent:red0", "agent:red2"]),
            ("since=1001", ["agent:red2"]),
            ("actor=agent:red0", ["agent:red0"]),
            ("session=s2", ["agent:red2"]),
            ("most=1", ["agent:red2"]),
        ):
            status, rows = await asked(both, auditor["key"], "GET", "/v1/audit", query=query)
            assert (status, [each["actor"] for each in rows]) == (200, actors), query
        for query in ("most=0", "most=100000", "since=-1", "since=inf", "since=nan"):
            assert (await asked(both, auditor["key"], "GET", "/v1/audit", query=query))[0] == 422, query
        assert (await asked(both, auditor["key"], "GET", "/v1/sessions"))[0] == 403

    run_teams(tmp_path, steps)
