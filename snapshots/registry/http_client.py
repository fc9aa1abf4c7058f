"""The HTTP client for one registry: TLS, bounded retries, authorization, redirects, limits on answers.

Proxies and trusted authorities come from the environment. A registry can be hostile or on a bad connection:
its answers are limited in size, and secrets never travel unencrypted, except to this machine and with
`plain_http`. Does not know what requests mean. May be used by several threads.
"""

from __future__ import annotations

import json
import os
import ssl
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import Any, Self, TypeVar

import httpx

from holdfast.base import trust_variables
from holdfast.errors import RegistryDenied, RegistryError, RegistryUnavailable
from holdfast.snapshots.registry import authorization, registry_failures, registry_login
from holdfast.snapshots.registry.authorization import Authorization
from holdfast.snapshots.registry.reference import Reference, is_loopback
from holdfast.snapshots.registry.registry_failures import BUSY, Backoff, PassingFailure, asked_for

PROXIES = ("HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY")


REFUSED_HINT = (
    "HTTPS_PROXY may hold a name and a password, `http://NAME:PASSWORD@HOST:PORT`; "
    "NO_PROXY lists the exceptions"
)
_FINAL = ("403", "407")
"""Answers of a proxy that asking again does not change."""


def refusal(error: httpx.TransportError) -> str:
    """Return why a proxy refuses this user; empty if that was not the reason."""
    if isinstance(error, httpx.ProxyError) and str(error).startswith(_FINAL):
        return f"the proxy on the way refuses ({registry_failures.shown(str(error))})"
    return ""


def variables() -> str:
    """Return the names of the variables that are set for proxies, for a message; empty for none."""
    return ", ".join(
        spelled for name in PROXIES for spelled in (name.lower(), name) if os.environ.get(spelled)
    )


def authorities(host: str) -> ssl.SSLContext:
    """Return the trust for TLS: the system's authorities, SSL_CERT_FILE instead, others added.

    Raises:
        RegistryError: a variable names something that holds no certificates.
    """
    context = ssl.create_default_context()
    for path, name in trust_variables.added(os.environ).items():
        try:
            if path.is_dir():
                context.load_verify_locations(capath=path)
            else:
                context.load_verify_locations(cafile=path)
        except OSError as error:  # SSLError is one
            raise RegistryError(
                f"cannot reach {host}: {name} names {path}, which does not contain certificates",
                hint="correct or unset that variable",
            ) from error
    return context


@contextmanager
def explained(host: str) -> Iterator[None]:
    """Explain, in the block, settings that prevent a client.

    Raises:
        RegistryError: a variable names no proxy that can be used.
    """
    try:
        yield
    except (ImportError, ValueError) as error:  # SOCKS needs another package; other schemes are unknown
        why = registry_failures.shown(str(error))
        raise RegistryError(
            f"cannot reach {host}: {variables()} must name HTTP proxies ({why})",
            hint="set them to `http://HOST:PORT`, or unset them",
        ) from error


T = TypeVar("T")

CONNECT_SECONDS = 10.0
SILENCE_SECONDS = 60.0
"""The longest silence of a registry: one that assembles a large upload takes its time."""
MAX_REDIRECTS = 5
MAX_REFUSALS = 2
"""Most refusals of one request: without a token, and with an expired one."""
MAX_ANSWER = 1 << 20


class HttpClient:
    """The way to the registry of a reference.

    Args:
        reference: names the registry.
        plain_http: do without TLS, even if the registry is not on this machine.
        find: finds the credentials when the registry demands them.
        patience: how often a passing failure is retried.
        transport: replaces the network, for tests.
    """

    def __init__(
        self,
        reference: Reference,
        *,
        plain_http: bool = False,
        find: Callable[[str], registry_login.RegistryCredentials | None] = registry_login.find,
        patience: Backoff | None = None,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        self.reference = reference
        self.plain_http = plain_http
        self.patience = patience or Backoff()
        self.authorization = Authorization(reference.host, lambda: find(reference.host), self._fetch)
        with explained(reference.host):
            self._client = httpx.Client(
                verify=authorities(reference.host),
                timeout=httpx.Timeout(SILENCE_SECONDS, connect=CONNECT_SECONDS),
                headers={"Accept-Encoding": "identity", "User-Agent": "holdfast"},
                trust_env=not reference.is_loopback,  # there is no proxy on the way to this machine
                transport=transport,
            )
        self._base: httpx.URL | None = None

    @property
    def base(self) -> httpx.URL:
        """The API's address. A registry on this machine can do without TLS, which is tried first.

        Raises:
            RegistryUnavailable: it does not answer.
        """
        if self._base is None:
            plain = self.plain_http or (self.reference.is_loopback and not self._speaks_tls())
            self._base = httpx.URL(f"{'http' if plain else 'https'}://{self.reference.authority}")
        return self._base

    def url(self, path: str) -> httpx.URL:
        """Return an address in the repository: `blobs/…`, `manifests/…`."""
        return self.base.copy_with(raw_path=f"/v2/{self.reference.repository}/{path}".encode())

    def request(
        self,
        method: str,
        url: httpx.URL,
        scopes: Iterable[str],
        *,
        headers: Mapping[str, str] | None = None,
        content: bytes = b"",
        limit: int = MAX_ANSWER,
    ) -> httpx.Response:
        """Send a repeatable request; return the answer, whatever its status, read up to `limit` bytes.

        Raises:
            RegistryUnavailable: every attempt found it silent or failing.
            RegistryDenied: it does not let us in.
        """
        scopes = tuple(scopes)
        return self.again(
            lambda: self.read(self.once(method, url, scopes, headers=headers, content=content), limit)
        )

    def again(self, attempt: Callable[[], T]) -> T:
        """Return the result of `attempt`; retry while that can help.

        Raises:
            RegistryUnavailable: no attempt succeeded.
        """
        try:
            return self.patience.again(attempt)
        except PassingFailure as passing:
            raise self.unavailable(passing) from passing

    def once(
        self,
        method: str,
        url: httpx.URL,
        scopes: Iterable[str],
        *,
        headers: Mapping[str, str] | None = None,
        content: bytes | Iterable[bytes] = b"",
    ) -> httpx.Response:
        """Send a request, with credentials as demanded; the body of the answer is still to be read.

        Raises:
            Passing: it can work the next time.
            RegistryDenied: it does not let us in.
        """
        scopes = tuple(scopes)
        refusals = redirects = 0
        while True:
            ours = _is_ours(self.base, url)
            sent = self.authorization.header(scopes) if ours else None
            with self.passing():
                fields = dict(headers or {}) | ({"Authorization": sent} if sent else {})
                request = self._client.build_request(method, url, headers=fields, content=content)
                response = self._client.send(request, stream=True, follow_redirects=False)
            if response.status_code in BUSY:
                answer = self.read(response)
                raise PassingFailure(
                    f"it answers {registry_failures.said(answer)}", asked_for(answer.headers)
                )
            if response.status_code in (401, 403) and ours:
                answer = self.read(response)
                asked = authorization.parse_challenges(answer.headers.get_list("www-authenticate"))
                if answer.status_code == 403 or not self.authorization.refused(asked, scopes, sent):
                    raise _denied(self, answer)
                refusals += 1
                # A stream is used up now; it is only sent once there is a token.
                if refusals > MAX_REFUSALS or not isinstance(content, bytes):
                    raise _denied(self, answer)
            elif response.has_redirect_location and method in ("GET", "HEAD"):
                response.close()
                redirects += 1
                if redirects > MAX_REDIRECTS:
                    raise RegistryError(f"cannot use {self.reference.host}: it redirects without end")
                url = self.checked(response.headers["location"], url)
            else:
                return response

    def read(self, response: httpx.Response, limit: int = MAX_ANSWER) -> httpx.Response:
        """Return the answer with its body.

        Raises:
            Passing: the connection was lost.
            RegistryError: it is longer than `limit`.
        """
        body = bytearray()
        try:
            with self.passing():
                for piece in response.iter_raw(1 << 16):
                    body += piece
                    if len(body) > limit:
                        raise RegistryError(f"cannot use {self.reference.host}: its answer is too long")
        finally:
            response.close()
        headers = [
            (name, value) for name, value in response.headers.multi_items() if name != "content-encoding"
        ]
        return httpx.Response(
            response.status_code, headers=headers, content=bytes(body), request=response.request
        )

    def checked(self, location: str, base: httpx.URL | None = None) -> httpx.URL:
        """Return an address from the registry after checking that it is permitted.

        Raises:
            RegistryError: it is not valid, or not encrypted although the registry is.
        """
        try:
            url = (base or self.base).join(location)
        except (httpx.InvalidURL, ValueError) as error:
            raise RegistryError(
                f"cannot use {self.reference.host}: it redirects without a Location"
            ) from error
        near = self.plain_http or is_loopback(url.host)
        if url.host and (url.scheme == "https" or (url.scheme == "http" == self.base.scheme and near)):
            return url
        raise RegistryError(
            f"cannot use {self.reference.host}: "
            f"it redirects to {registry_failures.shown(f'{url.scheme}://{url.host}')}, "
            "which is not encrypted",
            hint="use it with TLS, or with --plain-http if you know the network in between",
        )

    @contextmanager
    def passing(self) -> Iterator[None]:
        """Translate losses of a connection into Passing."""
        try:
            yield
        except httpx.TransportError as error:
            if distrust := registry_failures.distrusts(error):
                raise RegistryUnavailable(
                    f"cannot reach {self.reference.host}: its certificate is not trusted ({distrust})",
                    hint="add its authority to the system's, or name it with SSL_CERT_FILE",
                ) from error
            if refused := refusal(error):
                raise RegistryUnavailable(
                    f"cannot reach {self.reference.host}: {refused}", hint=REFUSED_HINT
                ) from error
            if registry_failures.speaks_plain(error):
                raise RegistryUnavailable(
                    f"cannot reach {self.reference.host}: it does not speak TLS",
                    hint="use --plain-http if you know the network in between",
                ) from error
            raise PassingFailure(registry_failures.why(error)) from error

    def unavailable(self, why: PassingFailure) -> RegistryUnavailable:
        """Return the error for when all attempts are used up."""
        hint = "check the name, and whether the registry is running"
        if not self.reference.is_loopback and (chosen := variables()):
            hint += f" {chosen} of the environment can choose a proxy"
        return RegistryUnavailable(f"cannot reach {self.reference.host}: {why}", hint=hint)

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self.close()

    def _speaks_tls(self) -> bool:
        def knock() -> bool:
            try:
                self._client.get(f"https://{self.reference.authority}/v2/")
            except httpx.TransportError as error:
                if registry_failures.speaks_plain(error):
                    return False
                with self.passing():
                    raise
            return True

        return self.again(knock)

    def _fetch(
        self,
        url: str,
        query: Mapping[str, str | list[str]],
        form: Mapping[str, str] | None,
        basic: str | None,
    ) -> Mapping[str, Any] | None:
        """Ask a token server."""
        where = self.checked(url)

        def ask() -> httpx.Response:
            with self.passing():
                request = self._client.build_request(
                    "POST" if form else "GET",
                    where.copy_merge_params(dict(query)),
                    data=dict(form) if form else None,
                    headers={"Authorization": basic} if basic else {},
                )
                answer = self.read(self._client.send(request, stream=True, follow_redirects=False))
            if answer.status_code in BUSY:
                raise PassingFailure(
                    f"its token server answers {registry_failures.said(answer)}", asked_for(answer.headers)
                )
            return answer

        answer = self.again(ask)
        if answer.status_code in (400, 401, 403):
            return None
        with suppress(ValueError):
            value = json.loads(answer.content)
            if answer.is_success and isinstance(value, dict):
                return value
        raise RegistryError(
            f"cannot log in to {self.reference.host}: its token server answers {answer.status_code}"
        )


def _denied(client: HttpClient, answer: httpx.Response) -> RegistryDenied:
    """Return the error for when the registry knows the user, but denies the request."""
    user = client.authorization.user
    who = f"user '{user}'" if user else "the anonymous user"
    return RegistryDenied(
        f"cannot use {client.reference.host}/{client.reference.repository}: {who} lacks permission "
        f"({registry_failures.said(answer)})",
        hint=client.authorization.hint,
    )


def _is_ours(base: httpx.URL, url: httpx.URL) -> bool:
    return (url.scheme, url.host, url.port) == (base.scheme, base.host, base.port)
