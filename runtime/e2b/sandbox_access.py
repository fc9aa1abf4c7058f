"""Access to sandboxes: the sandbox of a request, and the rights of each credential.

The requests share the port of the server, and are known by their paths and headers, those for ports by the
name they are sent to. Tokens are made from the server's own one and the id of the session, so they are not
stored; a restore or fork has a new id, and refuses its parent's tokens.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import re
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial

from starlette.datastructures import QueryParams

from holdfast.base.text import plain
from holdfast.errors import HoldfastError
from holdfast.runtime.access.access_keys import AccessKey
from holdfast.runtime.e2b import connect_wire, sandbox_lives
from holdfast.runtime.e2b.sandbox_lives import SandboxFacts
from holdfast.runtime.http_doors import admission
from holdfast.runtime.http_doors.admission import Admission, App, Refusal, Scope, Send
from holdfast.runtime.http_doors.door_sockets import ADMITTED
from holdfast.runtime.serve import key_rules, preview_visits
from holdfast.runtime.serve.access_key_requests import opened_with
from holdfast.runtime.serve.callers import Callers
from holdfast.runtime.serve.preview_visits import PreviewVisits
from holdfast.runtime.serve.request_gate import ServedDoor
from holdfast.runtime.sessions import preview_grants
from holdfast.runtime.store import lifetime
from holdfast.runtime.store.rows import SessionRow

ACTOR = "agent:e2b"
SANDBOX = admission.SANDBOX
"""The key of a request's scope under which the door notes the sandbox that its token is for."""


@dataclass(frozen=True, slots=True)
class FileSignature:
    """The content of a signed address for one file. `expiration` is in seconds since 1970."""

    path: str
    operation: str
    user: str
    signature: str
    expiration: int | None

    def expired(self, now: float) -> bool:
        """Return whether it has expired."""
        return self.expiration is not None and now > self.expiration


_MARK = 64
"""The length of a token; the tokens of an access key begin with its id."""


class SandboxTokens:
    """The tokens of all sandboxes of a server with this secret.

    Those that a client with an access key gets open nothing more than the key, and end with it.

    Args:
        secret: the server's own token.
        key: the id of the access key for which tokens are made; empty for the server's token.
    """

    def __init__(self, secret: str, key: str = "") -> None:
        self._secret, self._key = secret, key

    def of(self, key: str) -> SandboxTokens:
        """Return the tokens for the holder of an access key."""
        return self if key == self._key else SandboxTokens(self._secret, key)

    def access(self, sandbox: str) -> str:
        """Return the token for processes and files of a sandbox."""
        return self._made("access", sandbox, self._key)

    def traffic(self, sandbox: str) -> str:
        """Return the token for other ports of a sandbox."""
        return self._made("traffic", sandbox, self._key)

    def access_by(self, sandbox: str, given: str) -> str | None:
        """Return for which access key this is the token for processes and files of a sandbox.

        It is empty for the server's own token, and None if this is not such a token.
        """
        return self._by("access", sandbox, given)

    def traffic_by(self, sandbox: str, given: str) -> str | None:
        """Return for which access key this is the token for other ports of a sandbox, as `access_by` does."""
        return self._by("traffic", sandbox, given)

    def signed(self, sandbox: str, asked: FileSignature) -> bool:
        """Return whether a signature was made with the access token of a sandbox, for exactly this
        address."""
        expected = self.signature(sandbox, asked.path, asked.operation, asked.user, asked.expiration)
        return hmac.compare_digest(asked.signature.encode(), expected.encode())

    def signature(self, sandbox: str, path: str, operation: str, user: str, expiration: int | None) -> str:
        """Return the signature of an address, made with the access token of a sandbox.

        Its form is E2B's clients': base64 without padding of the SHA-256 of
        `path:operation:user:token[:expiration]`.
        """
        parts = [path, operation, user, self.access(sandbox)]
        if expiration is not None:
            parts.append(str(expiration))
        digest = hashlib.sha256(":".join(parts).encode()).digest()
        return "v1_" + base64.b64encode(digest).decode().rstrip("=")

    def _by(self, purpose: str, sandbox: str, given: str) -> str | None:
        key = given[:-_MARK]
        expected = self._made(purpose, sandbox, key)
        return key if hmac.compare_digest(given.encode(), expected.encode()) else None

    def _made(self, purpose: str, sandbox: str, key: str) -> str:
        said = f"{purpose}:{sandbox}:{key}" if key else f"{purpose}:{sandbox}"
        return key + hmac.new(self._secret.encode(), said.encode(), hashlib.sha256).hexdigest()


SECONDS = 1.0


class SandboxIds:
    """The ids as `read` returns them."""

    def __init__(self, read: Callable[[], Awaitable[Iterable[str]]]) -> None:
        self._read = read
        self._began = float("-inf")
        self._ids: asyncio.Future[Iterable[str]] | None = None

    async def known(self) -> Iterable[str]:
        """Return the ids, at most a second old."""
        return (await self._latest())[1]

    async def has(self, sandbox: str) -> bool:
        """Return whether a session with this id exists now: a different process can just have made it."""
        asked = time.monotonic()
        while True:
            began, ids = await self._latest()
            if sandbox in ids:
                return True
            if began > asked:
                return False
            if self._began == began:  # otherwise another request has them read again already
                self.forget()

    async def _latest(self) -> tuple[float, Iterable[str]]:
        """Return the time of the latest reading, and its result."""
        if self._ids is None or time.monotonic() > self._began + SECONDS:
            self._began = time.monotonic()
            self._ids = asyncio.ensure_future(self._read())
        began, reading = self._began, self._ids
        try:
            # One that leaves must not end what the others wait for.
            return began, await asyncio.shield(reading)
        except Exception:
            if self._ids is reading:
                self.forget()
            raise

    def forget(self) -> None:
        """Read the ids again when they are next needed: there is a new one."""
        self._ids = None


KEY, ACCESS, TRAFFIC = b"x-api-key", b"x-access-token", b"e2b-traffic-access-token"
SANDBOX_ID, SANDBOX_PORT = b"e2b-sandbox-id", b"e2b-sandbox-port"
ONCE = frozenset({b"host", b"authorization", KEY, ACCESS, TRAFFIC, SANDBOX_ID, SANDBOX_PORT})
"""Headers of credentials, and of the sandbox and port that a request is for."""
OWN = preview_grants.RESERVED
"""The ports at which clients expect processes and files, and code: this server itself answers there."""
_HOST = re.compile(rb"(\d{1,5})-(?:[a-z0-9-]{1,60}-)?([a-z0-9]{1,64})\.(.+)", re.DOTALL)
"""Before the id can be what people call the session: `3000-work-6bd7a1f3c10e`."""
_ID_BYTES = re.compile(rb"[a-z0-9]{1,64}")
_PORT = re.compile(rb"\d{1,5}")


@dataclass(frozen=True, slots=True)
class PortName:
    """A port of a sandbox. `domain` is the end of the host name; None if headers named the port."""

    sandbox: str
    port: int
    domain: bytes | None = None

    @property
    def own(self) -> bool:
        """Whether this server itself answers there."""
        return self.port in OWN

    @property
    def possible(self) -> bool:
        """Whether the port's number is valid."""
        return 0 < self.port <= 65535


def named(headers: Mapping[bytes, bytes]) -> PortName | None:
    """Return the port that a request is for, if any; names of headers are in lower case."""
    if found := _HOST.fullmatch(headers.get(b"host", b"").lower()):
        return PortName(found[2].decode(), int(found[1]), found[3])
    sandbox, port = headers.get(SANDBOX_ID, b""), headers.get(SANDBOX_PORT, b"")
    if _ID_BYTES.fullmatch(sandbox) and _PORT.fullmatch(port) and int(port) not in OWN:
        return PortName(sandbox.decode(), int(port))
    return None


KEY_PREFIX = b"e2b_"
"""Some clients accept only keys of this prefix and hexadecimal digits."""
_CONTROL = re.compile(r"/(v[23]/)?(sandboxes|snapshots|templates|teams|volumes|secrets|nodes)(/|$)")
_DATA = re.compile(r"/(process\.Process/|filesystem\.Filesystem/|files(/|$)|execute$|contexts(/|$)|envs$)")
_CONTEXTS = re.compile(r"/contexts(/|$)")
_FILES = "/files"
EXPIRED = "signature is already expired"
"""Clients compare this sentence of E2B's."""
_ID = re.compile(r"[a-z0-9]{1,64}")
_NO_KEY: Refusal = (
    401,
    "unauthorized",
    "send an access key (`holdfast access new NAME --e2b`), or the server's token as E2B_API_KEY=e2b_TOKEN",
)
_WRONG: Refusal = (
    401,
    "unauthorized",
    "the token is not one of this sandbox: connect to it for its tokens",
)


@dataclass(frozen=True, slots=True)
class Scopes:
    """The applications of this wire, by the credential that opens them.

    `control` has the paths for sandboxes as wholes, and needs the server's own token. `sandbox` has
    processes, files and code of one, for its access token; `contexts` and `files` have the few operations
    open to its traffic token, and to a signed address.
    """

    control: App
    sandbox: App
    contexts: App
    files: App


class SandboxDoor(ServedDoor):
    """The door of this wire, which has an application for each kind of credential."""

    single = ONCE
    acts_as = ACTOR
    knows_without_session = True
    typed = frozenset({("POST", "/process.Process/StreamInput")})
    streamed = frozenset({("POST", "/files")}) | typed

    def __init__(self, rules: Admission, scopes: Scopes, tokens: SandboxTokens, ids: SandboxIds) -> None:
        super().__init__(rules)
        self._scopes, self._tokens, self._ids = scopes, tokens, ids

    def takes(self, scope: Scope) -> Scope | None:
        """Return a request of this wire."""
        return scope if scope["type"] == "http" and is_of_wire(scope) else None

    async def refuse(self, scope: Scope, send: Send, refusal: Refusal) -> None:
        """Answer a request that is not let in."""
        status, _, why = refusal
        message = why if why.startswith(("cannot", EXPIRED)) else f"cannot answer: {why}"
        told = connect_wire.error_body(scope["path"], status, message)
        await admission.answer(scope, send, status, told)

    async def opens(self, scope: Scope) -> App | Refusal:
        """Return the application that a request can reach, or the reason for its refusal."""
        headers = dict(scope["headers"])
        if _CONTROL.match(scope["path"]):
            # Some clients send the id of a sandbox to the control plane as well.
            given = headers.get(KEY, b"")
            if self.rules.is_token(given.removeprefix(KEY_PREFIX)):
                return self._scopes.control
            return self.opened_by([given], scope, self._scopes.control) or _NO_KEY
        asked = signature(scope) if scope["path"] == _FILES else None
        if asked is not None and asked.expired(time.time()):
            return 401, "unauthorized", EXPIRED
        try:
            if SANDBOX_ID in headers:
                return await self._named(scope, headers, asked)
            return await self._found(scope, headers, asked)
        except HoldfastError as error:  # the sessions cannot be looked up
            return connect_wire.status_of(error), error.code, connect_wire.sentence(error)

    async def _named(
        self, scope: Scope, headers: Mapping[bytes, bytes], asked: FileSignature | None
    ) -> App | Refusal:
        """Return the part of the request's sandbox that a credential opens."""
        sandbox, access, traffic = (
            headers.get(name, b"").decode("latin-1") for name in (SANDBOX_ID, ACCESS, TRAFFIC)
        )
        if not _ID.fullmatch(sandbox):
            return _WRONG
        if (by := self._tokens.access_by(sandbox, access)) is not None:
            found = self._scopes.sandbox
        elif asked is not None and (by := self._signed_by(sandbox, asked, _keys(self.rules))) is not None:
            found = self._scopes.files
        elif (by := self._tokens.traffic_by(sandbox, traffic)) is None:
            return _WRONG
        elif _CONTEXTS.match(scope["path"]):
            found = self._scopes.contexts
        else:
            return 401, "unauthorized", "the traffic access token opens ports: send the access token of envd"
        opened = self._of_sandbox(scope, sandbox, by, found)
        if not isinstance(opened, tuple) and not await self._ids.has(sandbox):
            return 502, "sandbox_unavailable", f"cannot reach the sandbox: {sandbox} was not found"
        return opened

    def _of_sandbox(self, scope: Scope, sandbox: str, by: str, app: App) -> App | Refusal:
        """Return an application for one sandbox, as the access key opens it of which its token is."""
        opened = _as_key_opens(self.rules, scope, sandbox, by, app)
        if opened is None:
            return _WRONG
        scope[SANDBOX] = sandbox
        return opened

    def _signed_by(self, sandbox: str, asked: FileSignature, keys: Iterable[str]) -> str | None:
        """Return with the token of which access key an address was signed; empty for the server's own."""
        return next((each for each in keys if self._tokens.of(each).signed(sandbox, asked)), None)

    async def _found(
        self, scope: Scope, headers: Mapping[bytes, bytes], asked: FileSignature | None
    ) -> App | Refusal:
        """Return the part of its own sandbox that a credential opens."""
        # Some clients send the token without the id of the sandbox they have connected to.
        access = headers.get(ACCESS, b"").decode("latin-1")
        keys = [] if asked is None else _keys(self.rules)
        for sandbox in await self._ids.known() if access or asked is not None else ():
            if access and (by := self._tokens.access_by(sandbox, access)) is not None:
                return self._of_sandbox(scope, sandbox, by, self._scopes.sandbox)
            if asked is not None and (by := self._signed_by(sandbox, asked, keys)) is not None:
                return self._of_sandbox(scope, sandbox, by, self._scopes.files)
        return _WRONG

    def actor(self, scope: Scope) -> str:
        """Return the actor of a request, for the audit trail: holders of a sandbox's token choose none."""
        key: AccessKey | None = scope.get(admission.KEY)
        if SANDBOX in scope:
            return ACTOR if key is None else key.actor
        return super().actor(scope)


def _as_key_opens(rules: Admission, scope: Scope, sandbox: str, by: str, app: App) -> App | None:
    """Return an application as an access key opens it, by its id; None if it does not. Empty: as it is."""
    if not by:
        return app
    key = rules.key_of(by)
    if key is None or key.session not in ("", sandbox):
        return None
    return opened_with(key, rules, scope, app)


def _keys(rules: Admission) -> list[str]:
    """Return the ids of valid access keys behind an empty one, for the server's own token."""
    now, keys = time.time(), [] if rules.keys is None else rules.keys.list()
    return ["", *(each.id for each in keys if each.is_valid(now))]


def is_of_wire(scope: Scope) -> bool:
    """Return whether a request is one of this wire."""
    if any(name in (SANDBOX_ID, KEY, ACCESS) for name, _ in scope["headers"]):
        return True
    return bool(_DATA.match(scope["path"]) or _CONTROL.match(scope["path"]))


def signature(scope: Scope) -> FileSignature | None:
    """Return the content of a signed address; None if it is not one."""
    items = QueryParams(scope["query_string"]).multi_items()
    said = dict(items)
    if "signature" not in said or len(said) < len(items):  # twice: which is signed, and which one counts?
        return None
    given = said.get("signature_expiration")
    if given is not None and not re.fullmatch(r"\d{1,12}", given, re.ASCII):
        return None
    operation = "write" if scope["method"] == "POST" else "read"
    return FileSignature(
        path=said.get("path", ""),
        operation=operation,
        user=said.get("username", ""),
        signature=said["signature"],
        expiration=None if given is None else int(given),
    )


PORT = "holdfast.port"
"""The key of a request's scope under which the door notes the port that it is for."""

_CLOSED = (
    "the ports of the sandbox need its traffic access token, as header e2b-traffic-access-token, "
    "or the server's token or an access key as `Authorization: Bearer`; "
    "or make it with network={'allow_public_traffic': True}"
)
_NO_LINK = (
    "the port needs a valid link: `holdfast preview SESSION PORT` prints one, or, for everyone, with --public"
)
NOT_FOUND = "The sandbox was not found"
"""The words of E2B's proxy, which its clients look for."""


class PortDoor(ServedDoor):
    """The door to ports, before all others: a request to the name of a port cannot reach other paths.

    A port is open to callers with the server's token, an access key or a token of its sandbox, to visitors
    with a link, and to everyone if the maker of the sandbox or a person wanted that. Every session is a
    sandbox here.
    """

    # Strangers may come here, so the server behind the port says how much.
    streamed = typed = frozenset(
        (method, "") for method in ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
    )
    counted = False
    single = ONCE

    def __init__(
        self,
        rules: Admission,
        traffic: App,
        callers: Callers,
        tokens: SandboxTokens,
        ids: SandboxIds,
        visits: PreviewVisits,
    ) -> None:
        super().__init__(rules)
        self._traffic, self._callers, self._tokens, self._ids = traffic, callers, tokens, ids
        self._visits = visits

    def takes(self, scope: Scope) -> Scope | None:
        """Return a request for a port, with the port noted."""
        name = named(dict(scope.get("headers", ())))
        return None if name is None else {**preview_visits.disclosed(scope), PORT: name}

    def elsewhere(self, scope: Scope) -> Refusal | None:
        """Return the refusal of a request that used a name other than this server's."""
        name: PortName = scope[PORT]
        if not name.possible:
            return 400, "bad_request", f"port {name.port} does not exist"
        # What pages of other origins may do is for the server in the session to say.
        if name.domain is not None and self.rules.is_here(name.domain):
            return None
        return super().elsewhere(scope)

    async def opens(self, scope: Scope) -> App | Refusal:
        """Return the traffic, for callers with access to the port."""
        name = scope[PORT]
        own = self._owners(scope, name.sandbox)
        try:
            if own is not None and await self._ids.has(name.sandbox):
                return own
            # A link can be younger than the list of ids.
            if not any(scope[preview_visits.GIVEN]) and name.sandbox not in await self._ids.known():
                return 502, "sandbox_unavailable", NOT_FOUND
            row = await self._callers.brief.run(partial(self._row, name.sandbox))
        except HoldfastError as error:
            return connect_wire.status_of(error), error.code, str(error)
        facts = None if row is None else SandboxFacts.of(row)
        if row is None or sandbox_lives.ended(row):
            return 502, "sandbox_unavailable", NOT_FOUND
        if (visit := self._visits.admitted(scope, row, name.port)) is not None:
            if row.state == "suspended" and not lifetime.asleep(row):
                return 503, "suspended", f"session {row.name} is suspended: `holdfast resume` continues it"
            return visit
        if facts is not None and facts.public_ports:
            scope[ADMITTED] = False
            return self._traffic
        return 403, "forbidden", _NO_LINK if preview_visits.is_browsing(scope) else _CLOSED

    def _owners(self, scope: Scope, sandbox: str) -> App | None:
        """Return the traffic for the server's token, a key, or a token of the sandbox; None for others."""
        headers = dict(scope["headers"])
        access, traffic = (headers.get(each, b"").decode("latin-1") for each in (ACCESS, TRAFFIC))
        if (by := self._tokens.access_by(sandbox, access)) is None:
            by = self._tokens.traffic_by(sandbox, traffic)
        if by is None:
            found = self.opened_by(admission.bearer_tokens(scope), scope, self._traffic)
        else:
            found = _as_key_opens(self.rules, scope, sandbox, by, self._traffic)
        key: AccessKey | None = scope.get(admission.KEY)
        if key is not None and (not key_rules.opens_ports(key) or key.session not in ("", sandbox)):
            del scope[admission.KEY]
            return None
        return found

    async def refuse(self, scope: Scope, send: Send, refusal: Refusal) -> None:
        """Answer a request that is not let in."""
        status, _, why = refusal
        await refuse(scope, send, scope[PORT], status, why)

    def _row(self, sandbox: str) -> SessionRow | None:
        return self._callers.controller(ACTOR).store.find_session(sandbox)


async def refuse(scope: Scope, send: Send, name: PortName, status: int, why: str) -> None:
    """Answer in the form of E2B's proxy, or with a line of text to a person."""
    message = why if why.startswith(("cannot", NOT_FOUND)) else f"cannot answer: {why}"
    if preview_visits.is_browsing(scope):
        await preview_visits.tell(scope, send, status, message)
        return
    told = {"sandboxId": name.sandbox, "port": name.port, "code": status, "message": plain(message, 2000)}
    await admission.answer(scope, send, status, told, [(b"retry-after", b"1")] if status == 503 else [])


def said_by_name(rules: Admission) -> Callable[[Scope], Scope]:
    """Return a function that writes the name of a port at which this server itself answers into headers."""

    def said(scope: Scope) -> Scope:
        headers = scope.get("headers", ())
        name = named(dict(headers))
        if name is None or not name.own or name.domain is None or not rules.is_here(name.domain):
            return scope
        meant = {
            b"host": name.domain,
            SANDBOX_ID: name.sandbox.encode(),
            SANDBOX_PORT: str(name.port).encode(),
        }
        return {**scope, "headers": [*(each for each in headers if each[0] not in meant), *meant.items()]}

    return said
