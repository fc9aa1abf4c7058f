"""Authorization of requests to a registry: none, a password, or a token requested from its token server.

Owns the tokens: one for each set of scopes, renewed before it expires; and the registry's challenge, the
header WWW-Authenticate (RFC 9110, 11.6.1). Does not know how requests are sent (`fetch`).
https://distribution.github.io/distribution/spec/auth/token/
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from holdfast.base.text import plain
from holdfast.errors import RegistryDenied, RegistryError
from holdfast.snapshots.registry.registry_login import PASSWORD, USER, RegistryCredentials

CLIENT = "holdfast"
SHORTEST = 60.0
"""Lifetime in seconds of a token that does not state it, by the specification."""
EARLY = 0.2
"""Part of a token's lifetime left when another is requested: a request in progress is not cut off."""

Scopes = frozenset[str]
MAX_CHALLENGE = 8192
_TOKEN = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"  # noqa: S105 - as RFC 9110 calls it
_PARAMETER = re.compile(rf'\s*+(?:,\s*+)?({_TOKEN})\s*=\s*(?:"((?:[^"\\]|\\.)*)"|({_TOKEN}))')
_SCHEME = re.compile(rf"\s*+(?:,\s*+)?({_TOKEN})(?=\s|,|$)")


class Fetch(Protocol):
    """The way to a token server."""

    def __call__(
        self,
        url: str,
        query: Mapping[str, str | list[str]],
        form: Mapping[str, str] | None,
        basic: str | None,
    ) -> Mapping[str, Any] | None:
        """Ask the server; post `form` if there is one. Return its answer, or None if it refuses."""


def pull(repository: str) -> str:
    """Return the scope of reading."""
    return f"repository:{repository}:pull"


def push(repository: str) -> str:
    """Return the scope of writing, which also needs reading."""
    return f"repository:{repository}:pull,push"


@dataclass
class Authorization:
    """The authorization for one registry. May be used by several threads."""

    host: str
    credentials: Callable[[], RegistryCredentials | None]
    fetch: Fetch
    clock: Callable[[], float] = time.monotonic
    _known: RegistryCredentials | None = None
    _looked: bool = False
    _basic: bool = False
    _server: Challenge | None = None
    _tokens: dict[Scopes, tuple[str, float]] = field(default_factory=dict)
    _lock: threading.RLock = field(default_factory=threading.RLock)

    def header(self, scopes: Iterable[str]) -> str | None:
        """Return the authorization for a request with these scopes, as far as the registry's demands are
        known.

        Raises:
            RegistryDenied: the token server refuses.
        """
        with self._lock:
            if self._basic and (credentials := self._who()):
                return credentials.basic
            return self._token(frozenset(scopes)) if self._server else None

    def refused(self, challenges: Iterable[Challenge], scopes: Iterable[str], sent: str | None) -> bool:
        """Record a refusal (401); return whether it is worth trying again.

        Raises:
            RegistryDenied: credentials are missing or wrong.
        """
        with self._lock:
            wanted = frozenset(scopes)
            for challenge in challenges:
                if challenge.scheme == "bearer" and challenge.parameters.get("realm"):
                    self._server = challenge
                    current = self._tokens.get(wanted)
                    if current and sent == f"Bearer {current[0]}":  # expired, or not the kind demanded
                        del self._tokens[wanted]
                        return True
                    return sent is None or not sent.startswith("Bearer ") or current is not None
                if challenge.scheme == "basic":
                    credentials = self._who()
                    if credentials is None or not credentials.user:
                        raise self._nobody()
                    self._basic = True
                    if sent == credentials.basic:
                        raise self._wrong(credentials)
                    return True
            return False

    def _who(self) -> RegistryCredentials | None:
        if not self._looked:
            self._known, self._looked = self.credentials(), True
        return self._known

    @property
    def user(self) -> str:
        """The user name for messages; empty if anonymous."""
        known = self._who()
        return plain(known.user, 100) if known else ""

    def _token(self, scopes: Scopes) -> str:
        token, until = self._tokens.get(scopes, ("", 0.0))
        if not token or self.clock() >= until:
            asked = self.clock()
            token, good = self._ask(scopes)
            self._tokens[scopes] = token, asked + good * (1 - EARLY)
        return f"Bearer {token}"

    def _ask(self, scopes: Scopes) -> tuple[str, float]:
        assert self._server is not None
        realm, service = self._server.parameters["realm"], self._server.parameters.get("service", "")
        credentials = self._who()
        if credentials and credentials.identity_token:
            form = {
                "grant_type": "refresh_token",
                "service": service,
                "client_id": CLIENT,
                "scope": " ".join(sorted(scopes)),
                "refresh_token": credentials.identity_token,
            }
            answer = self.fetch(realm, {}, form, None)
        else:
            query: dict[str, str | list[str]] = {
                "service": service,
                "scope": sorted(scopes),
                "client_id": CLIENT,
            }
            answer = self.fetch(realm, query, None, credentials.basic if credentials else None)
        if answer is None:
            raise self._wrong(credentials) if credentials else self._nobody()
        token = answer.get("token") or answer.get("access_token")
        if not isinstance(token, str) or not token.isascii() or not token.isprintable():
            raise RegistryError(f"cannot log in to {self.host}: its token server does not give a token")
        good = answer.get("expires_in")
        return token, float(good) if isinstance(good, int | float) and good > 0 else SHORTEST

    def _nobody(self) -> RegistryDenied:
        return RegistryDenied(f"cannot log in to {self.host}: it requires a login", hint=self.hint)

    def _wrong(self, credentials: RegistryCredentials) -> RegistryDenied:
        who = f"user '{self.user}'" if credentials.user else "the token of `docker login`"
        return RegistryDenied(
            f"cannot log in to {self.host}: {who} or the password is not accepted"
            if credentials.user
            else f"cannot log in to {self.host}: {who} is not accepted",
            hint=self.hint,
        )

    @property
    def hint(self) -> str:
        """The advice on how to provide credentials."""
        return f"`docker login {self.host}`, or set {USER} and {PASSWORD}"


@dataclass(frozen=True, slots=True)
class Challenge:
    """One way to authenticate: the scheme in lower case, and its parameters by name in lower case."""

    scheme: str
    parameters: Mapping[str, str] = field(default_factory=dict)


def parse_challenges(headers: Iterable[str]) -> list[Challenge]:
    """Return every challenge in the header's values, in order; stop at the first that cannot be parsed."""
    found: list[Challenge] = []
    for value in headers:
        text, at = value[:MAX_CHALLENGE], 0
        while scheme := _SCHEME.match(text, at):
            at = scheme.end()
            parameters: dict[str, str] = {}
            while parameter := _PARAMETER.match(text, at):
                at = parameter.end()
                quoted, bare = parameter[2], parameter[3]
                parameters[parameter[1].lower()] = bare if quoted is None else re.sub(r"\\(.)", r"\1", quoted)
            found.append(Challenge(scheme[1].lower(), parameters))
    return found
