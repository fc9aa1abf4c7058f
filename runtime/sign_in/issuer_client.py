"""One issuer as the server asks it: its description, its keys, and tokens for codes.

Answers are limited in size and time, and redirects are not followed. Keys are kept, and fetched again
when a token was signed by one that is not among them, but not at every stranger's wish.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Mapping
from typing import Any

import httpx
from authlib.oauth2.auth import ClientAuth
from authlib.oauth2.rfc6749.parameters import prepare_grant_uri, prepare_token_request
from authlib.oauth2.rfc7636 import create_s256_code_challenge
from authlib.oidc.discovery import get_well_known_url

from holdfast.base.text import plain
from holdfast.errors import NotPermitted, ServerUnavailable
from holdfast.runtime.http_doors import sign_in_wire
from holdfast.runtime.sign_in import identity_tokens
from holdfast.runtime.sign_in.identity_tokens import Expected, UnknownKey
from holdfast.runtime.sign_in.issuer_settings import Issuer

SECONDS = 10.0
MOST_ANSWER = 512 << 10
FRESH_SECONDS = 3600.0
"""How long a description and keys are used."""
FAILED_SECONDS = 3.0
"""How long an issuer that did not answer is not asked for its description or keys."""
AGAIN_SECONDS = 10.0
"""Between two fetches of keys."""
_FORM = {"Content-Type": "application/x-www-form-urlencoded", "Accept": "application/json"}


class IssuerClient:
    """An issuer; used in one loop.

    Args:
        issuer: its settings.
        secret: of our client; empty for a public one.
    """

    def __init__(self, issuer: Issuer, secret: str) -> None:
        self.issuer, self._secret = issuer, secret
        self._described: tuple[float, dict[str, Any]] = (0.0, {})
        self._keys: tuple[float, dict[str, Any]] = (0.0, {})
        self._failed: tuple[float, ServerUnavailable | None] = (0.0, None)
        self._lock = asyncio.Lock()

    async def address(self, back: str, state: str, nonce: str, verifier: str) -> str:
        """Return the address at which a browser begins to sign in; it is sent `back` from there.

        Raises:
            ServerUnavailable: the issuer does not answer.
        """
        there = await self.description()
        return str(
            prepare_grant_uri(
                _endpoint(there, "authorization_endpoint"),
                self.issuer.client,
                "code",
                redirect_uri=back,
                scope=" ".join(self.issuer.scopes),
                state=state,
                nonce=nonce,
                code_challenge=create_s256_code_challenge(verifier),
                code_challenge_method="S256",
            )
        )

    async def claims_for(self, code: str, back: str, nonce: str, verifier: str) -> dict[str, Any]:
        """Exchange a code, and return the claims of the identity token.

        Raises:
            NotPermitted: the issuer does not accept the code, or its token is not right.
            ServerUnavailable: it does not answer.
        """
        there = await self.description()
        url = _endpoint(there, "token_endpoint")
        body = prepare_token_request(
            "authorization_code", redirect_uri=back, code=code, code_verifier=verifier
        )
        auth = ClientAuth(self.issuer.client, self._secret, _method(there, bool(self._secret)))
        url, headers, body = auth.prepare("POST", url, dict(_FORM), body)
        told = await self._asked("POST", url, headers=headers, content=body)
        if not isinstance(token := told.get("id_token"), str):
            why = plain(str(told.get("error", "it sent no identity token")), 80)
            raise NotPermitted(
                f"cannot sign in: the issuer {self.issuer.name} says {why}", hint="sign in again"
            )
        return await self.verified(token, Expected(self.issuer.url, self.issuer.client, nonce))

    async def verified(self, token: str, expected: Expected) -> dict[str, Any]:
        """Return the claims of an identity token; raises as `claims_for` does."""
        try:
            return identity_tokens.claims_of(token, await self._key_set(FRESH_SECONDS), expected)
        except UnknownKey:  # a new one, perhaps
            keys = await self._key_set(AGAIN_SECONDS)
        try:
            return identity_tokens.claims_of(token, keys, expected)
        except UnknownKey as error:
            raise NotPermitted(str(error)) from error

    async def description(self) -> dict[str, Any]:
        """Return the issuer's description of itself; raises ServerUnavailable."""
        async with self._lock:
            at, told = self._described
            if not told or time.monotonic() - at > FRESH_SECONDS:
                told = await self._fetched(get_well_known_url(self.issuer.url, external=True))
                if told.get("issuer") != self.issuer.url:
                    raise ServerUnavailable(
                        f"cannot sign in: at the URL of {self.issuer.name} a different issuer answers",
                        hint="`url` in the settings must be what the issuer calls itself, to the last slash",
                    )
                self._described = (time.monotonic(), told)
            return told

    async def _key_set(self, age: float) -> dict[str, Any]:
        url = _endpoint(await self.description(), "jwks_uri")
        async with self._lock:
            at, keys = self._keys
            if not keys or time.monotonic() - at > age:
                keys = await self._fetched(url)
                if not isinstance(keys.get("keys"), list):
                    raise ServerUnavailable(
                        f"cannot sign in: the issuer {self.issuer.name} does not show keys"
                    )
                self._keys = (time.monotonic(), keys)
            return keys

    async def _fetched(self, url: str) -> dict[str, Any]:
        """Return an answer of the issuer; callers who wait while it is silent are refused together."""
        at, error = self._failed
        if error is not None and time.monotonic() - at < FAILED_SECONDS:
            raise ServerUnavailable(str(error), hint=error.hint)
        try:
            return await self._asked("GET", url)
        except ServerUnavailable as failed:
            self._failed = (time.monotonic(), failed)
            raise

    async def _asked(self, method: str, url: str, **more: Any) -> dict[str, Any]:
        """Return the object that is answered, whatever the status."""
        failed = f"cannot sign in: the issuer {self.issuer.name} does not answer"
        try:
            async with (
                asyncio.timeout(SECONDS),
                httpx.AsyncClient(follow_redirects=False, timeout=SECONDS) as client,
                client.stream(method, url, **more) as answer,
            ):
                body = b""
                async for part in answer.aiter_bytes():
                    body += part
                    if len(body) > MOST_ANSWER:
                        raise ServerUnavailable(f"{failed}: its answer is too large")
            told = json.loads(body)
        except (httpx.HTTPError, TimeoutError, ValueError, RecursionError) as error:
            raise ServerUnavailable(f"{failed}: {plain(str(error), 120) or 'in time'}") from error
        if not isinstance(told, dict):
            raise ServerUnavailable(f"{failed} as an issuer does")
        return told


def _endpoint(there: Mapping[str, Any], name: str) -> str:
    """Return an address of the issuer: over TLS, or on this machine."""
    try:
        url = str(there[name])
        sign_in_wire.checked_url(url.partition("?")[0], name)
    except (KeyError, ValueError) as error:
        raise ServerUnavailable(f"cannot sign in: the issuer does not have a usable {name}") from error
    return url


def _method(there: Mapping[str, Any], has_secret: bool) -> str:
    if not has_secret:
        return "none"
    known = there.get("token_endpoint_auth_methods_supported")
    post_only = (
        isinstance(known, list) and "client_secret_basic" not in known and "client_secret_post" in known
    )
    return "client_secret_post" if post_only else "client_secret_basic"
