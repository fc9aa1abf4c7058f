"""The login of a person at a terminal: a device code of an issuer (RFC 8628), exchanged for an access key.

The server names its issuer. The person follows an address of the issuer in any browser and enters a code; the
resulting identity token is made for this login at this server alone. Keeps nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import httpx

from holdfast.base.text import plain
from holdfast.errors import HoldfastError, InvalidArgument, NotPermitted, ServerUnavailable
from holdfast.runtime.client import kept_logins
from holdfast.runtime.client.kept_logins import KeptLogin
from holdfast.runtime.http_doors import sign_in_wire

SECONDS = 30.0
LONGEST_WAIT = 3600.0
_GRANT = "urn:ietf:params:oauth:grant-type:device_code"
_SLOWER = 5.0
"""Seconds more between two questions, when the issuer asks for that: RFC 8628, 3.5."""


@dataclass(frozen=True, slots=True)
class DeviceCode:
    """The code and the address that a person is shown."""

    url: str
    """Where they enter the code."""
    code: str
    whole: str
    """The address with the code in it; empty if the issuer has none."""


def login(
    url: str,
    issuer: str | None,
    show: Callable[[DeviceCode], None],
    pause: Callable[[float], None] = time.sleep,
    *,
    team: str = "",
    choose: Callable[[Sequence[str]], str] | None = None,
) -> KeptLogin:
    """Have a person sign in at a server; return the login.

    Args:
        url: of the server.
        issuer: its name, where the server has several.
        show: called when there is something for the person to do.
        pause: waits between two questions.
        team: its name.
        choose: returns the team of a person who is in several; an empty name is the server's own home.

    Raises:
        InvalidArgument: the URL is not safe, or the server has several issuers, or a team must be named.
        NotPermitted: the person or the server refuses.
        ServerUnavailable: the server or the issuer does not answer, or does not offer this login.
    """
    try:
        server = kept_logins.named(sign_in_wire.checked_url(url.rstrip("/"), "the URL"))
    except ValueError as error:
        raise InvalidArgument(f"cannot log in at '{plain(url, 200)}': {error}") from error
    with httpx.Client(timeout=SECONDS, follow_redirects=False) as client:
        name, device = _chosen(_told(client, "GET", f"{server}{sign_in_wire.ISSUERS}", "the server"), issuer)
        challenge = str(
            _told(client, "POST", f"{server}{sign_in_wire.CHALLENGES}", "the server").get("challenge")
        )
        nonce = sign_in_wire.nonce_for(urlsplit(server).netloc, challenge)
        token = _identity_token(client, device, nonce, show, pause)
        body = {"issuer": name, "id_token": token, "challenge": challenge} | ({"team": team} if team else {})
        there = f"{server}{sign_in_wire.TOKENS}"
        got = _told(client, "POST", there, "the server", json=body)
        if isinstance(teams := got.get("teams"), list):
            body["team"] = _team([str(each) for each in teams], choose)
            got = _told(client, "POST", there, "the server", json=body)
    try:
        return KeptLogin(
            server, str(got["key"]), str(got["actor"]), float(got["expires_at"]), str(got.get("team") or "")
        )
    except (KeyError, TypeError, ValueError) as error:
        raise ServerUnavailable("cannot log in: the server's answer cannot be read") from error


def _team(teams: Sequence[str], choose: Callable[[Sequence[str]], str] | None) -> str:
    if choose is not None:
        return choose(teams)
    names = ", ".join(plain(each, 40) or "the server's own home" for each in teams)
    raise InvalidArgument(
        f"cannot log in: you are in several teams: {names}", hint="`holdfast --team NAME login URL`"
    )


def logout(login: KeptLogin) -> None:
    """Revoke the key of a login.

    Raises:
        ServerUnavailable: the server does not answer.
    """
    with httpx.Client(timeout=SECONDS, follow_redirects=False) as client:
        try:
            answer = client.post(
                f"{login.url}{sign_in_wire.END}", headers={"Authorization": f"Bearer {login.key}"}, json={}
            )
        except httpx.HTTPError as error:
            raise ServerUnavailable(
                f"cannot revoke the key of {login.actor}: the server at {login.url} does not answer"
            ) from error
    if answer.status_code not in (204, 401):  # one that opens nothing any more is as good as revoked
        raise ServerUnavailable(
            f"cannot revoke the key of {login.actor}: the server at {login.url} answers {answer.status_code}"
        )


def _chosen(told: Mapping[str, Any], wanted: str | None) -> tuple[str, Mapping[str, Any]]:
    """Return the issuer with which a person logs in, and our client there."""
    offered = told.get("issuers")
    found: dict[str, Mapping[str, Any]] = {}
    for each in offered if isinstance(offered, list) else ():
        if isinstance(each, dict) and isinstance(each.get("device"), dict):
            found[str(each.get("name"))] = each["device"]
    if wanted is None and len(found) > 1:
        names = ", ".join(plain(each, 40) for each in found)
        raise InvalidArgument(f"cannot log in: the server has several issuers: {names}", hint="--issuer NAME")
    name = next(iter(found), "") if wanted is None else wanted
    if name not in found:
        raise ServerUnavailable(
            "cannot log in: the server does not offer that issuer for this",
            hint="`device` in the file of `serve --oidc` names the client for it",
        )
    return name, found[name]


def _identity_token(
    client: httpx.Client,
    device: Mapping[str, Any],
    nonce: str,
    show: Callable[[DeviceCode], None],
    pause: Callable[[float], None],
) -> str:
    try:
        url = sign_in_wire.checked_url(str(device["url"]), "the URL of the issuer")
        there = _told(client, "GET", f"{url.rstrip('/')}/.well-known/openid-configuration", "the issuer")
        if there.get("issuer") != url:
            raise ValueError("a different issuer answers at its URL")
        begin = sign_in_wire.checked_url(
            str(there["device_authorization_endpoint"]), "its address for devices"
        )
        tokens = sign_in_wire.checked_url(str(there["token_endpoint"]), "its address for tokens")
        ours = {"client_id": str(device["client"])}
        asked = {**ours, "scope": str(device["scope"]), "nonce": nonce}
        begun = _told(client, "POST", begin, "the issuer", data=asked)
        code, wait = str(begun["device_code"]), float(begun.get("interval", 5))
        until = time.monotonic() + min(float(begun["expires_in"]), LONGEST_WAIT)
        where = sign_in_wire.checked_url(str(begun["verification_uri"]), "its address for people")
        show(DeviceCode(where, str(begun["user_code"]), _whole(begun)))
    except (KeyError, ValueError, TypeError) as error:
        raise ServerUnavailable(
            f"cannot log in: the issuer cannot be used: {plain(str(error), 120)}"
        ) from error
    while time.monotonic() < until:
        pause(max(0.0, min(wait, 60.0)))
        form = {**ours, "grant_type": _GRANT, "device_code": code}
        got = _told(client, "POST", tokens, "the issuer", refused=False, data=form)
        if isinstance(token := got.get("id_token"), str):
            return token
        if (why := got.get("error")) == "slow_down":
            wait += _SLOWER
        elif why != "authorization_pending":
            raise NotPermitted(f"cannot log in: the issuer says {plain(str(why), 80)}", hint="begin again")
    raise NotPermitted("cannot log in: the code has expired", hint="begin again")


def _whole(begun: Mapping[str, Any]) -> str:
    try:
        url = str(begun["verification_uri_complete"])
        sign_in_wire.checked_url(url.partition("?")[0], "it")
    except (KeyError, ValueError):
        return ""
    return url


def _told(
    client: httpx.Client, method: str, url: str, whose: str, *, refused: bool = True, **more: Any
) -> dict[str, Any]:
    """Return the object that is answered; with `refused`, an error in it is raised."""
    try:
        answer = client.request(method, url, **more)
        told = answer.json()
    except (httpx.HTTPError, ValueError, RecursionError) as error:
        raise ServerUnavailable(f"cannot log in: {whose} at {plain(url, 120)} does not answer") from error
    if not isinstance(told, dict):
        raise ServerUnavailable(f"cannot log in: {whose} at {plain(url, 120)} answers something else")
    if refused and answer.status_code >= 400:
        raise _refusal(answer.status_code, told, whose)
    return told


def _refusal(status: int, told: Mapping[str, Any], whose: str) -> HoldfastError:
    error = told.get("error")
    if isinstance(error, dict):
        message = plain(str(error.get("message")), 400)
        if status in (401, 404) and error.get("code") in ("unauthorized", "not_found"):
            return ServerUnavailable(
                f"cannot log in: {whose} does not let people sign in", hint="`holdfast serve --oidc FILE`"
            )
        return NotPermitted(message, hint=plain(str(error.get("hint", "")), 400))
    why = plain(str(told.get("error_description") or error or status), 200)
    return NotPermitted(f"cannot log in: {whose} says {why}")
