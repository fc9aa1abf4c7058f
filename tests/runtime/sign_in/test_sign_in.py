"""People sign in by a certified issuer, to the page and at a terminal; others try to be someone else."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import httpx
import pytest
from starlette.testclient import TestClient
from tests.runtime.sign_in.real_issuer import (
    HERE,
    SECRET,
    Issuer,
    Visitor,
    doors_of,
    issuing,
    listening,
)

from holdfast.errors import InvalidArgument, NotPermitted
from holdfast.runtime.access.access_keys import AccessKey
from holdfast.runtime.access.audit_trail import AuditTrail
from holdfast.runtime.cli.served_doors import ServedDoors
from holdfast.runtime.client import client_address, device_login, kept_logins
from holdfast.runtime.http_doors import door_sockets
from holdfast.runtime.sign_in.people_homes import HeldKey
from holdfast.runtime.sign_in.sign_in_door import COOKIE, PLAIN_BEGUN_COOKIE

JSON = {"content-type": "application/json"}


@pytest.fixture(scope="module")
def issuer() -> Iterator[Issuer]:
    with issuing() as found:
        yield found


@pytest.fixture(scope="module")
def other() -> Iterator[Issuer]:
    with issuing() as found:
        yield found


@pytest.fixture(autouse=True)
def secret(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("ISSUER_SECRET", SECRET)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "configuration"))
    monkeypatch.delenv("HOLDFAST_TOKEN", raising=False)


@contextmanager
def served(doors: ServedDoors, url: str = HERE, peer: str = "127.0.0.1") -> Iterator[TestClient]:
    """Yield a browser at a server."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "lifespan":
            await doors.app(scope, receive, send)
            return
        for kind in ("startup", "shutdown"):
            await receive()
            await send({"type": f"lifespan.{kind}.complete"})

    with TestClient(app, base_url=url, follow_redirects=False, client=(peer, 1)) as found:
        yield found
    doors.callers.close()


def away(browser: TestClient, name: str = "corp") -> str:
    """Return the address to which a browser is sent to sign in."""
    answer = browser.get(f"/sign-in/with/{name}")
    assert answer.status_code == 303, answer.text
    return str(answer.headers["location"])


def back(browser: TestClient, url: str) -> Any:
    """Return the answer to a browser that comes back from an issuer."""
    parts = urlsplit(url)
    return browser.get(f"{parts.path}?{parts.query}")


def entered(browser: TestClient, subject: str) -> dict[str, Any]:
    """Sign in at the page; return its short key."""
    answer = back(browser, Visitor(subject).follow(away(browser)))
    assert answer.status_code == 303, answer.text
    place = answer.headers["location"]
    body = {"entry": place.partition("entry=")[2]} if "entry=" in place else {}
    got = browser.post("/sign-in/key", json=body)
    assert got.status_code == 201, got.text
    return dict(got.json())


def key_of(doors: ServedDoors, text: str) -> AccessKey:
    """Return the access key of a page."""
    assert doors.sign_in is not None
    held = doors.sign_in.held(text.encode())
    assert held is not None
    return held.key


def asks(browser: TestClient, key: str, method: str = "GET", path: str = "/health") -> Any:
    return browser.request(method, path, headers={"authorization": f"Bearer {key}"})


def test_a_person_signs_in_to_the_page_and_out(issuer: Issuer, tmp_path: Path) -> None:
    """The role comes from the first rule that fits; signing out ends all copies of the key."""
    doors = doors_of(tmp_path, issuer.settings())
    with served(doors) as browser:
        told = browser.get("/sign-in").json()
        assert [each["name"] for each in told["issuers"]] == ["corp"]
        got = entered(browser, "u-ada")
        assert got["actor"] == "person:ada"
        assert asks(browser, got["key"]).status_code == 200
        key = key_of(doors, got["key"])
        assert (key.kind, "sessions:remove" in key.scopes, "host:mounts" in key.scopes) == (
            "person",
            True,
            False,
        )
        assert key.acts_as("person:eve") == "person:ada/eve"
        ended = browser.post("/sign-in/end", json={}, headers={"authorization": f"Bearer {got['key']}"})
        assert ended.status_code == 204
        assert asks(browser, got["key"]).status_code == 401
        viewer = entered(browser, "u-ben")
        assert (
            asks(browser, viewer["key"], "DELETE", "/v1/sessions/x").json()["error"]["code"]
            == "not_permitted"
        )
    rows = AuditTrail(doors.callers.home.root).rows(most=100)
    signed = [(each.actor, each.path) for each in rows if each.path.startswith("/sign-in")]
    assert ("person:ada", "/sign-in/with/{issuer}/back") in signed
    assert ("person:ada", "/sign-in/end") in signed


def test_over_tls_a_cookie_is_exchanged_for_short_keys(tmp_path: Path) -> None:
    """No script, no other site and no neighbouring port gets the cookie; the page is given a key of ten
    minutes."""
    url = "https://holdfast.test"
    with issuing(url) as found, served(doors_of(tmp_path, found.settings(), url=url), url) as browser:
        answer = back(browser, Visitor("u-ada").follow(away(browser)))
        assert answer.headers["location"] == "/"
        (cookie,) = (each for each in answer.headers.get_list("set-cookie") if each.startswith(f"{COOKIE}="))
        marks = {each.strip().lower().partition("=")[0]: each for each in cookie.split(";")[1:]}
        assert {"secure", "httponly", "path", "max-age"} < set(marks)
        assert "domain" not in marks
        assert "samesite=strict" in cookie.lower()
        got = browser.post("/sign-in/key", json={}).json()
        assert 0 < got["seconds"] <= 600
        assert asks(browser, got["key"]).status_code == 200
        # What another site can have a browser send is not answered, and the cookie opens no other path.
        assert browser.post("/sign-in/key", data={"a": "b"}).status_code == 403
        foreign = browser.post("/sign-in/key", json={}, headers={"origin": "https://evil.test"})
        assert foreign.status_code == 403
        assert browser.get("/v1/sessions").status_code == 401
        assert browser.post("/sign-in/end", json={}).status_code == 204
        assert COOKIE not in browser.cookies
        assert asks(browser, got["key"]).status_code == 401


def test_an_answer_of_the_issuer_works_once_and_in_its_browser(issuer: Issuer, tmp_path: Path) -> None:
    """A state or code that was used, was made up, or belongs to a different browser signs no one in."""
    with served(doors_of(tmp_path, issuer.settings())) as browser:
        there = Visitor("u-ada").follow(away(browser))
        asked = {name: values[0] for name, values in parse_qs(urlsplit(there).query).items()}
        binding = browser.cookies[PLAIN_BEGUN_COOKIE]
        browser.cookies.clear()
        assert back(browser, there).status_code == 403  # a victim who is sent the link of an attacker
        browser.cookies[PLAIN_BEGUN_COOKIE] = binding
        assert back(browser, there).status_code == 403  # that has used the state up

        there = Visitor("u-ada").follow(away(browser))
        assert back(browser, there).status_code == 303
        assert back(browser, there).status_code == 403
        code = parse_qs(urlsplit(there).query)["code"][0]
        state = parse_qs(urlsplit(away(browser)).query)["state"][0]
        again = back(
            browser, f"{HERE}/sign-in/with/corp/back?{urlencode({**asked, 'code': code, 'state': state})}"
        )
        assert (again.status_code, "invalid_grant" in again.text) == (403, True)

        state = parse_qs(urlsplit(away(browser)).query)["state"][0]
        for wrong in ({"state": "made-up"}, {"state": state, "iss": "https://evil.test"}, {"state": state}):
            sent = urlencode({"code": "x", **wrong})
            assert back(browser, f"{HERE}/sign-in/with/corp/back?{sent}").status_code == 403
        twice = f"{HERE}/sign-in/with/corp/back?state={state}&state=x&code=y"
        assert back(browser, twice).status_code == 400


def test_a_sign_in_leads_to_the_page_and_nowhere_else(issuer: Issuer, tmp_path: Path) -> None:
    """Whatever a link adds: a server that passes visitors on is of use to phishers."""
    with served(doors_of(tmp_path, issuer.settings())) as browser:
        more = "next=https://evil.test&redirect_uri=https://evil.test&return_to=//evil.test"
        there = str(browser.get(f"/sign-in/with/corp?{more}").headers["location"])
        assert there.startswith(f"{issuer.url}/auth?")
        assert parse_qs(urlsplit(there).query)["redirect_uri"] == [f"{HERE}/sign-in/with/corp/back"]
        answer = back(browser, Visitor("u-ada").follow(there) + f"&{more}")
        assert answer.headers["location"].startswith("/#entry=")
        for path in ("/sign-in/with//evil.test", "/sign-in/with/corp/../evil", "/sign-in/with/none"):
            assert browser.get(path).status_code in (401, 404), path


def test_an_answer_of_one_issuer_is_not_one_of_a_second(
    issuer: Issuer, other: Issuer, tmp_path: Path
) -> None:
    """Each has its own way back, and a code of one is not sent to the other."""
    second = other.settings("other")
    with served(doors_of(tmp_path, issuer.settings(), second)) as browser:
        there = Visitor("u-ada").follow(away(browser))
        assert back(browser, there.replace("/corp/", "/other/")).status_code == 403


def test_a_name_is_that_of_its_first_owner(issuer: Issuer, other: Issuer, tmp_path: Path) -> None:
    """Neither someone who takes the name later, nor one who has it at a second issuer, acts under it."""
    doors = doors_of(tmp_path, issuer.settings(), other.settings("other"))
    with served(doors) as browser:
        entered(browser, "u-ada")
        for subject, name in (("u-eve", "corp"), ("u-ada", "other")):
            answer = back(browser, Visitor(subject).follow(away(browser, name)))
            assert (answer.status_code, "different person" in answer.text) == (403, True)
        answer = back(browser, Visitor("u-out").follow(away(browser)))
        assert (answer.status_code, "not given a role" in answer.text) == (403, True)
    assert {each.actor for each in doors.callers.keys.list()} == {"person:ada"}


def test_a_person_logs_in_at_a_terminal(issuer: Issuer, tmp_path: Path) -> None:
    """The key is kept where no one else reads it, used for that URL, and revoked by the logout."""
    shown: list[device_login.DeviceCode] = []

    def enter(code: device_login.DeviceCode) -> None:
        shown.append(code)
        Visitor("u-ada").follow(code.url, user_code=code.code)

    with listening(lambda _: doors_of(tmp_path, issuer.settings())) as (url, doors):
        made = device_login.login(url + "/", None, enter, lambda _: None)
        assert made.actor == "person:ada"
        assert shown[0].url == f"{issuer.url}/device"
        kept_logins.keep(made)
        assert kept_logins.file().stat().st_mode & 0o777 == 0o600
        assert client_address.address_of(url).token == made.key
        kept_logins.file().chmod(0o640)
        with pytest.raises(InvalidArgument, match="other users can read it"):
            client_address.address_of(url)
        kept_logins.file().chmod(0o600)
        device_login.logout(made)
        assert doors.callers.keys.opened_by(made.key.encode()) is None
        kept_logins.forget(made)
        assert kept_logins.of(url) is None
        # An issuer that leaves the nonce out of this flow is refused, unless the settings allow that.
    strict = issuer.settings() | {"device": {"client": "terminals"}}
    again = listening(lambda _: doors_of(tmp_path, strict))
    with again as (url, _), pytest.raises(NotPermitted, match="nonce"):
        device_login.login(url, None, enter, lambda _: None)


def test_an_identity_token_is_exchanged_once(
    issuer: Issuer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A token that someone else has seen is worthless to them: it was used, or was made before they asked."""
    seen: list[str] = []
    real = device_login._identity_token

    def noted(*given: Any) -> str:
        seen.append(real(*given))
        return seen[-1]

    monkeypatch.setattr(device_login, "_identity_token", noted)

    def enter(code: device_login.DeviceCode) -> None:
        Visitor("u-ada").follow(code.url, user_code=code.code)

    doors = doors_of(tmp_path, issuer.settings())
    with listening(lambda _: doors) as (url, _), served(doors, url) as thief:
        device_login.login(url, None, enter, lambda _: None)

        def exchange(token: str, challenge: object = None) -> Any:
            fresh = challenge or thief.post("/sign-in/challenges", json={}).json()["challenge"]
            body = {"issuer": "corp", "id_token": token, "challenge": fresh}
            return thief.post("/sign-in/tokens", json=body)

        assert "done before" in exchange(seen[0]).text
        assert exchange("e30.e30.").status_code == 403
        assert exchange(seen[0], "made-up").status_code == 403
        assert (
            thief.post("/sign-in/tokens", content=json.dumps({"id_token": 1}), headers=JSON).status_code
            == 403
        )
        assert len(doors.callers.keys.list()) == 1


def test_a_proxy_names_people_from_its_own_address_alone(tmp_path: Path) -> None:
    """The header is refused from anywhere else, is heeded by no other path, and comes once."""
    proxy = {
        "header": "X-Forwarded-User", "groups": "X-Forwarded-Groups", "from": ["10.0.0.5"],
        "role": [{"claim": "groups", "value": "ops", "role": "admin"}, {"role": "viewer"}],
    }  # fmt: skip
    forged = {"x-forwarded-user": "ada"}
    doors = doors_of(tmp_path, proxy=proxy)
    with served(doors) as stranger:
        answer = stranger.post("/sign-in/key", json={}, headers=forged)
        assert (answer.status_code, answer.json()["error"]["code"]) == (403, "untrusted_proxy")
        assert stranger.get("/v1/sessions", headers=forged).status_code == 401
    doors = doors_of(tmp_path, proxy=proxy)
    with served(doors, peer="10.0.0.5") as behind:
        got = behind.post("/sign-in/key", json={}, headers=forged)
        assert (got.status_code, got.json()["actor"]) == (201, "person:ada")
        key = key_of(doors, got.json()["key"])
        assert "sessions:exec" not in key.scopes
        assert behind.get("/v1/sessions", headers=forged).status_code == 401
        several = [
            ("x-forwarded-user", "ada"),
            ("x-forwarded-user", "ben"),
            ("content-type", "application/json"),
        ]
        assert behind.post("/sign-in/key", content=b"{}", headers=several).status_code == 401
        assert behind.post("/sign-in/key", json={}).status_code == 401
        for name in ("", "root/../x", "x" * 33, "ada,ben"):
            assert behind.post("/sign-in/key", json={}, headers={"x-forwarded-user": name}).status_code in (
                401,
                403,
            )
        ops = {"x-forwarded-user": "olga", "x-forwarded-groups": "staff, ops"}
        admin = behind.post("/sign-in/key", json={}, headers=ops).json()
        assert "host:mounts" in key_of(doors, admin["key"]).scopes


def test_a_proxy_at_the_unix_socket_is_one_that_connects_there(tmp_path: Path) -> None:
    """A connection over the network is never taken for it, whatever has become of its address."""
    proxy = {"header": "X-Forwarded-User", "from": ["unix"]}
    sent: dict[str, Any] = {"json": {}, "headers": {"x-forwarded-user": "ada"}}
    with listening(lambda _: doors_of(tmp_path, proxy=proxy)) as (url, _):
        assert httpx.post(f"{url}/sign-in/key", trust_env=False, **sent).status_code == 403
    doors = doors_of(tmp_path, proxy=proxy)
    with served(doors, peer="") as lost:
        assert lost.post("/sign-in/key", **sent).status_code == 403
    opened = door_sockets.unix_listener(tmp_path / "socket")
    over = httpx.HTTPTransport(uds=str(tmp_path / "socket"))
    with listening(lambda _: doors_of(tmp_path, proxy=proxy), opened), httpx.Client(transport=over) as there:
        assert there.post("http://localhost/sign-in/key", **sent).json()["actor"] == "person:ada"


def test_a_person_has_so_many_keys(tmp_path: Path) -> None:
    """With one more the oldest ends, and the keys that pages got for it."""
    doors = doors_of(tmp_path)
    keys = doors.callers.keys
    held = HeldKey(doors.people(), *keys.sign_in("ada", ["viewer"], 3600))
    short = held.short(60).encode()
    with served(doors) as browser:
        assert asks(browser, short.decode()).status_code == 200
        for _ in range(20):
            keys.sign_in("ada", ["viewer"], 3600)
        assert keys.opened_by(held.text.encode()) is None
        assert asks(browser, short.decode()).status_code == 401
    assert len([each for each in keys.list() if each.is_valid(time.time())]) == 20
    assert keys.revoke("ada").name == "ada"
    assert not [each for each in keys.list() if each.is_valid(time.time())]


def test_strangers_begin_so_many_sign_ins(issuer: Issuer, tmp_path: Path) -> None:
    """A stranger over the rate learns when to come again; begun sign-ins are not pushed out by that."""
    with served(doors_of(tmp_path, issuer.settings())) as browser:
        there = away(browser)
        answers = [browser.post("/sign-in/challenges", json={}) for _ in range(80)]
        refused = [each for each in answers if each.status_code == 429]
        assert refused
        assert int(refused[0].headers["retry-after"]) >= 1
        time.sleep(1)
        assert back(browser, Visitor("u-ada").follow(there)).status_code == 303


def test_a_login_is_used_for_its_server_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a given token, before the home's; and an ended one is not replaced by it."""
    monkeypatch.setenv("HOLDFAST_HOME", str(tmp_path))
    (tmp_path / "server-token").write_text("of-the-home-of-this-user")
    url = "http://127.0.0.1:8420"
    login = kept_logins.KeptLogin(url, "hf_of_ada", "person:ada", time.time() + 60)
    kept_logins.keep(login)
    assert client_address.address_of(url + "/").token == "hf_of_ada"
    assert client_address.is_logged_in(url)
    for other in ("http://127.0.0.1:8421", "http://localhost:8420"):
        assert client_address.address_of(other).token == "of-the-home-of-this-user"
    assert client_address.address_of(url, "given").token == "given"
    monkeypatch.setenv("HOLDFAST_TOKEN", "of-the-environment")
    assert client_address.address_of(url).token == "of-the-environment"
    assert not client_address.is_logged_in(url)
    monkeypatch.delenv("HOLDFAST_TOKEN")
    kept_logins.keep(replace(login, expires_at=time.time() - 1))
    with pytest.raises(InvalidArgument, match="has ended"):
        client_address.address_of(url)
    kept_logins.file().write_text("{")
    with pytest.raises(InvalidArgument, match="cannot read the logins"):
        client_address.address_of(url)
