"""The sending of requests: again where it can help, with credentials only for their host, and within
limits."""

from __future__ import annotations

import base64
from collections.abc import Callable
from urllib.parse import parse_qs

import httpx
import pytest
from tests.snapshots.registry.fake import FakeRegistry

from holdfast.errors import RegistryDenied, RegistryError, RegistryUnavailable
from holdfast.snapshots.registry.authorization import Authorization, parse_challenges, pull
from holdfast.snapshots.registry.http_client import MAX_ANSWER, HttpClient
from holdfast.snapshots.registry.registry_login import RegistryCredentials

ME = RegistryCredentials("me", "secret")
SCOPES = [pull("team/work")]
BEARER = 'Bearer realm="https://auth.test/token",service="tests"'


@pytest.fixture
def registry() -> FakeRegistry:
    return FakeRegistry()


def _ask(client: HttpClient, path: str = "blobs/x") -> httpx.Response:
    return client.request("GET", client.url(path), SCOPES)


def _first(count: int, broken: Callable[[], httpx.Response | Exception]) -> Callable[[httpx.Request], object]:
    left = [count]

    def fault(_request: httpx.Request) -> httpx.Response | Exception | None:
        left[0] -= 1
        return broken() if left[0] >= 0 else None

    return fault


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503, 504])
def test_transient_obstacles_are_tried_again(registry: FakeRegistry, status: int) -> None:
    """With growing pauses; the answer is the last attempt's."""
    registry.blobs["x"] = b"text"
    registry.fault = _first(3, lambda: httpx.Response(status))  # type: ignore[assignment]
    assert _ask(registry.client()).content == b"text"
    assert registry.slept == [0.25, 0.5, 1.0]


def test_a_lost_connection_is_tried_again_so_often(registry: FakeRegistry) -> None:
    """Then it is reported in one line."""
    registry.fault = lambda _request: httpx.ReadError("reset")
    with pytest.raises(RegistryUnavailable, match=r"cannot reach registry\.test: the connection was lost"):
        _ask(registry.client())
    assert len(registry.seen) == 4


def test_a_registry_can_ask_for_time(registry: FakeRegistry) -> None:
    """Retry-After is heeded, but not for an hour."""
    registry.fault = _first(1, lambda: httpx.Response(429, headers={"Retry-After": "7"}))  # type: ignore[assignment]
    _ask(registry.client())
    registry.fault = _first(1, lambda: httpx.Response(429, headers={"Retry-After": "3600"}))  # type: ignore[assignment]
    _ask(registry.client())
    assert registry.slept == [7.0, 60.0]


def test_lasting_refusals_are_not_tried_again(registry: FakeRegistry) -> None:
    """404 is an answer."""
    assert _ask(registry.client()).status_code == 404
    assert len(registry.seen) == 1


def test_a_password_is_sent_when_it_is_wanted(registry: FakeRegistry) -> None:
    """Not before; and from then on with each request."""
    registry.challenge, registry.blobs["x"] = 'Basic realm="r"', b"text"
    expected = "Basic " + base64.b64encode(b"me:secret").decode()
    registry.allowed = lambda header: header == expected
    client = registry.client(user=ME)
    assert _ask(client).content == _ask(client).content == b"text"
    assert registry.authorizations == [None, expected, expected]


def test_a_wrong_password_is_one_clear_line(registry: FakeRegistry) -> None:
    """It is tried once; the hint says how credentials are given."""
    registry.challenge, registry.allowed = 'Basic realm="r"', lambda _header: False
    with pytest.raises(RegistryDenied) as raised:
        _ask(registry.client(user=ME))
    assert str(raised.value) == "cannot log in to registry.test: user 'me' or the password is not accepted"
    assert "docker login registry.test" in raised.value.hint
    assert len(registry.seen) == 2
    with pytest.raises(RegistryDenied, match=r"cannot log in to .*: it requires a login"):
        _ask(registry.client())


class Tokens:
    """A token server; tokens are numbered."""

    def __init__(self, registry: FakeRegistry, **more: object) -> None:
        self.count, self.more = 0, more
        self.asked: list[httpx.Request] = []
        registry.challenge, registry.tokens = BEARER, self.answer
        registry.allowed = lambda header: header == f"Bearer t{self.count}"

    def answer(self, request: httpx.Request) -> httpx.Response:
        self.asked.append(request)
        self.count += 1
        return httpx.Response(200, json={"token": f"t{self.count}", **self.more})


def test_a_token_is_asked_for(registry: FakeRegistry) -> None:
    """For the scope that is needed, with the password; the registry itself never gets that."""
    registry.blobs["x"] = b"text"
    tokens = Tokens(registry)
    client = registry.client(user=ME)
    assert _ask(client).content == _ask(client).content == b"text"
    (asked,) = tokens.asked
    assert parse_qs(asked.url.query.decode()) == {
        "service": ["tests"],
        "scope": ["repository:team/work:pull"],
        "client_id": ["holdfast"],
    }
    assert asked.headers["authorization"] == ME.basic
    assert registry.authorizations == [None, ME.basic, "Bearer t1", "Bearer t1"]


def test_anonymous_users_also_get_a_token(registry: FakeRegistry) -> None:
    """Public repositories want one without a password."""
    registry.blobs["x"] = b"text"
    tokens = Tokens(registry)
    assert _ask(registry.client()).content == b"text"
    assert "authorization" not in tokens.asked[0].headers


def test_a_token_that_ended_is_renewed(registry: FakeRegistry) -> None:
    """If the registry says so."""
    registry.blobs["x"] = b"text"
    tokens = Tokens(registry)
    client = registry.client(user=ME)
    _ask(client)
    registry.allowed = lambda header: header == "Bearer t2"
    assert _ask(client).content == b"text"
    assert tokens.count == 2


def test_an_insufficient_token_is_reported(registry: FakeRegistry) -> None:
    """And not renewed for ever."""
    tokens = Tokens(registry)
    registry.allowed = lambda _header: False
    with pytest.raises(RegistryDenied, match="user 'me' lacks permission"):
        _ask(registry.client(user=ME))
    assert tokens.count <= 3


def test_a_token_is_renewed_before_its_end() -> None:
    """By the clock; a short one at four fifths of its time."""
    now = [1000.0]
    given: list[str] = []

    def fetch(url: str, query: object, form: object, basic: str | None) -> dict[str, object]:
        given.append(f"t{len(given)}")
        return {"access_token": given[-1], "expires_in": 100}

    held = Authorization("r.test", lambda: ME, fetch, lambda: now[0])
    assert held.header(SCOPES) is None
    assert held.refused(parse_challenges([BEARER]), SCOPES, None)
    assert held.header(SCOPES) == held.header(SCOPES) == "Bearer t0"
    now[0] += 79
    assert held.header(SCOPES) == "Bearer t0"
    now[0] += 2
    assert held.header(SCOPES) == "Bearer t1"
    assert held.header([pull("other")]) == "Bearer t2"


def test_an_identity_token_is_exchanged(registry: FakeRegistry) -> None:
    """As OAuth 2 has it: posted, not in an address."""
    registry.blobs["x"] = b"text"
    tokens = Tokens(registry)
    _ask(registry.client(user=RegistryCredentials("", identity_token="identity")))
    (asked,) = tokens.asked
    assert asked.method == "POST"
    form = parse_qs(asked.content.decode())
    assert (form["grant_type"], form["refresh_token"]) == (["refresh_token"], ["identity"])
    assert not asked.url.query


def test_passwords_go_over_no_open_line(registry: FakeRegistry) -> None:
    """A registry cannot have them sent to a token server without TLS."""
    registry.challenge, registry.allowed = BEARER.replace("https", "http"), lambda _header: False
    with pytest.raises(RegistryError, match=r"it redirects to http://auth\.test, which is not encrypted"):
        _ask(registry.client(user=ME))
    assert not any(path == "GET /token" for path in registry.seen)


def test_redirects_take_no_credentials_along(registry: FakeRegistry) -> None:
    """Blobs are often elsewhere; their host does not have to know the caller."""
    registry.challenge, registry.blobs["y"] = 'Basic realm="r"', b"text"
    registry.allowed = lambda header: header == ME.basic

    def elsewhere(request: httpx.Request) -> httpx.Response | None:
        if request.url.host == "store.test":
            return httpx.Response(200, content=b"from the store")
        if request.headers.get("authorization"):
            return httpx.Response(307, headers={"Location": "https://store.test/v2/y?signed=1"})
        return None

    registry.fault = elsewhere
    assert _ask(registry.client(user=ME)).content == b"from the store"
    assert registry.authorizations == [None, ME.basic, None]


@pytest.mark.parametrize(
    ("location", "why"),
    [
        ("http://store.test/x", "not encrypted"),
        ("http://127.0.0.1/x", "not encrypted"),
        ("file:///etc/passwd", "not encrypted"),
        ("https://registry.test/again", "without end"),
    ],
)
def test_redirects_lead_somewhere_safe(registry: FakeRegistry, location: str, why: str) -> None:
    """To TLS, and not in circles."""
    registry.fault = lambda _request: httpx.Response(307, headers={"Location": location})
    with pytest.raises(RegistryError, match=why):
        _ask(registry.client())


def test_answers_have_an_end(registry: FakeRegistry) -> None:
    """A body larger than such an answer can be is not read."""
    registry.fault = lambda _request: httpx.Response(200, content=b"x" * (MAX_ANSWER + 1))
    with pytest.raises(RegistryError, match="too long"):
        _ask(registry.client())


def test_a_registrys_messages_are_made_printable(registry: FakeRegistry) -> None:
    """A terminal would obey it."""
    body = {"errors": [{"code": "DENIED", "message": "no\x1b[2J\r\nroom" + "x" * 1000}]}
    registry.fault = lambda _request: httpx.Response(403, json=body)
    with pytest.raises(RegistryDenied) as raised:
        _ask(registry.client())
    assert "no[2Jroom" in str(raised.value)
    assert str(raised.value).isprintable()
    assert len(str(raised.value)) < 400


def test_plain_http_is_asked_for(registry: FakeRegistry) -> None:
    """TLS is spoken with all other hosts."""
    assert registry.client().url("x").scheme == "https"
    assert registry.client(plain_http=True).url("x").scheme == "http"
