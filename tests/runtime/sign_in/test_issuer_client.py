"""An issuer that misbehaves, or a server in its place, signs no one in and holds nothing up."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from joserfc import jwt
from joserfc.jwk import RSAKey

from holdfast.errors import NotPermitted, ServerUnavailable
from holdfast.runtime.sign_in import issuer_client
from holdfast.runtime.sign_in.identity_tokens import Expected
from holdfast.runtime.sign_in.issuer_client import IssuerClient
from holdfast.runtime.sign_in.issuer_settings import Issuer

WELL_KNOWN = "/.well-known/openid-configuration"


class Hostile:
    """The server at the URL of an issuer: a status, headers and a body for each path."""

    def __init__(self) -> None:
        self.answers: dict[str, tuple[int, dict[str, str], bytes]] = {}
        self.asked: list[str] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                outer.asked.append(self.path)
                status, headers, body = outer.answers.get(self.path, (404, {}, b"{}"))
                self.send_response(status)
                for name, value in {"content-length": str(len(body)), **headers}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)

            do_POST = do_GET  # noqa: N815

            def log_message(self, *_: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        self.says(WELL_KNOWN, self.description())

    def description(self, **changed: Any) -> dict[str, Any]:
        return {
            "issuer": self.url,
            "authorization_endpoint": f"{self.url}/auth",
            "token_endpoint": f"{self.url}/token",
            "jwks_uri": f"{self.url}/jwks",
        } | changed

    def says(self, path: str, what: Any, status: int = 200, **headers: str) -> None:
        body = what if isinstance(what, bytes) else json.dumps(what).encode()
        self.answers[path] = (status, headers, body)

    def client(self) -> IssuerClient:
        told = {"name": "corp", "url": self.url, "client": "holdfast", "role": [{"role": "viewer"}]}
        return IssuerClient(Issuer.model_validate(told), "")


@pytest.fixture
def hostile() -> Iterator[Hostile]:
    found = Hostile()
    thread = threading.Thread(target=found.server.serve_forever, args=(0.05,))
    thread.start()
    yield found
    found.server.shutdown()
    thread.join()
    found.server.server_close()


def address(client: IssuerClient) -> str:
    return asyncio.run(client.address("http://localhost/back", "state", "nonce", "v" * 43))


@pytest.mark.parametrize(
    ("what", "status"),
    [
        ({"issuer": "https://other.test"}, 200),
        ({"authorization_endpoint": "http://evil.test/auth"}, 200),
        ({"authorization_endpoint": "javascript:alert(1)"}, 200),
        ({"authorization_endpoint": None}, 200),
        (b"<html>", 200),
        (b"[" * 100_000, 200),
        (b"7", 200),
        (b" " * (600 << 10), 200),
    ],
)
def test_a_description_that_is_not_an_issuers_is_refused(hostile: Hostile, what: Any, status: int) -> None:
    """One of somewhere else, one that leads away without TLS, and one without an end."""
    told = hostile.description(**what) if isinstance(what, dict) else what
    hostile.says(WELL_KNOWN, told, status)
    with pytest.raises(ServerUnavailable):
        address(hostile.client())


def test_redirects_of_an_issuer_are_not_followed(hostile: Hostile) -> None:
    """They could lead to other services of the server's network."""
    hostile.says(WELL_KNOWN, b"", 302, location=f"{hostile.url}/elsewhere")
    hostile.says("/elsewhere", hostile.description())
    with pytest.raises(ServerUnavailable):
        address(hostile.client())
    assert hostile.asked == [WELL_KNOWN]


def test_a_silent_issuer_does_not_have_people_wait_in_turn(
    hostile: Hostile, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ten who come together are refused after one attempt."""
    monkeypatch.setattr(issuer_client, "SECONDS", 0.5)
    hostile.says(WELL_KNOWN, b"x", 200, **{"content-length": "100"})
    client = hostile.client()

    async def many() -> list[Any]:
        asks = [client.address("http://localhost/back", "s", "n", "v" * 43) for _ in range(10)]
        return await asyncio.gather(*asks, return_exceptions=True)

    assert {type(each) for each in asyncio.run(many())} == {ServerUnavailable}
    assert hostile.asked == [WELL_KNOWN]


def test_new_keys_are_found_and_unknown_ones_are_not_fetched_for_each_token(hostile: Hostile) -> None:
    """Strangers who send tokens with made-up keys do not have the issuer asked each time."""
    old, new = (RSAKey.generate_key(2048, {"kid": each}) for each in ("old", "new"))
    hostile.says("/jwks", {"keys": [old.as_dict(private=False)]})
    client = hostile.client()
    expected = Expected(hostile.url, "holdfast", "n")

    def verified(key: RSAKey) -> dict[str, Any]:
        now = int(time.time())
        claims = {
            "iss": hostile.url,
            "aud": "holdfast",
            "sub": "u",
            "nonce": "n",
            "iat": now,
            "exp": now + 60,
        }
        token = jwt.encode({"alg": "RS256", "kid": str(key.kid)}, claims, key)
        return asyncio.run(client.verified(token, expected))

    assert verified(old)["sub"] == "u"
    hostile.says("/jwks", {"keys": [new.as_dict(private=False)]})
    for _ in range(5):
        with pytest.raises(NotPermitted):
            verified(new)  # the keys were fetched just now
    assert hostile.asked.count("/jwks") == 1
    client._keys = (client._keys[0] - 60, client._keys[1])
    assert verified(new)["sub"] == "u"
    with pytest.raises(NotPermitted):
        verified(old)
    assert hostile.asked.count("/jwks") == 2


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        ({"error": "invalid_grant"}, NotPermitted),
        ({"id_token": 7}, NotPermitted),
        ({"id_token": "a.b.c"}, NotPermitted),
        ({"access_token": "x", "token_type": "bearer"}, NotPermitted),
        (b"", ServerUnavailable),
    ],
)
def test_a_code_that_brings_no_identity_signs_no_one_in(hostile: Hostile, answer: Any, error: Any) -> None:
    """An access token does not say for whom it is, and is not accepted in place of one that does."""
    hostile.says("/token", answer)
    hostile.says("/jwks", {"keys": []})
    with pytest.raises(error):
        asyncio.run(hostile.client().claims_for("code", "http://localhost/back", "n", "v" * 43))
