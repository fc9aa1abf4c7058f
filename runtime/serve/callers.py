"""The callers of the server: their controllers, and how their calls wait.

Every actor has a controller of its own, so that the journal has the right name. Sessions are looked up over
one open connection to the store: opening one takes most of the time of a lookup.
"""

from __future__ import annotations

import asyncio
import sqlite3
import threading
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import Annotated, TypeVar

from fastapi import Depends
from starlette.requests import HTTPConnection, Request

from holdfast.base import actors, file_stamp
from holdfast.base.home import Home
from holdfast.base.request_id import request_id
from holdfast.base.serving_record import ServingRecord
from holdfast.errors import HoldfastError, InvalidArgument, SessionNotFound
from holdfast.runtime.access.access_keys import AccessKey, AccessKeys
from holdfast.runtime.access.audit_trail import SERVER_KEY, AuditedRequest, AuditTrail
from holdfast.runtime.api.controller import Holdfast
from holdfast.runtime.api.session import Session
from holdfast.runtime.guest_rpc import call_arguments
from holdfast.runtime.guest_rpc.patience import Patience
from holdfast.runtime.http_doors.admission import ACTOR_HEADER, KEY, Scope
from holdfast.runtime.operations.context import Progress
from holdfast.runtime.serve import route_target, session_places
from holdfast.runtime.serve.call_threads import (
    MOST_BRIEF,
    MOST_BRIEF_OF_SESSION,
    MOST_WAITING,
    MOST_WAITING_OF_SANDBOX,
    CallThreads,
)
from holdfast.runtime.serve.server_metrics import ServerMetrics
from holdfast.runtime.serve.session_links import SessionLinks
from holdfast.runtime.serve.session_places import Away, PlacedRequest, SessionPlaces
from holdfast.runtime.store import peek
from holdfast.runtime.store.rows import SessionRow


class SessionRows:
    """The current rows of a database; any thread can ask."""

    def __init__(self, database: str) -> None:
        self._database = database
        self._lock = threading.Lock()
        self._db: sqlite3.Connection | None = None

    def find(self, ref: str) -> SessionRow | None:
        """Return the session with this name, id or prefix of an id; None if the store must be asked.

        Raises:
            SessionNotFound, InvalidArgument: none or several match.
        """
        with self._lock:
            try:
                if self._db is None:
                    self._db = peek.opened(self._database, one_thread=False)
                return peek.session_in(self._db, ref)
            except sqlite3.Error:
                self._close()
                return None

    def close(self) -> None:
        """Close the connection; the next lookup opens a new one."""
        with self._lock:
            self._close()

    def _close(self) -> None:
        if self._db is not None:
            self._db.close()
            self._db = None


Result = TypeVar("Result")


class SeenRows:
    """All sessions of a home, which are read again if its database has changed: a look at the file takes
    microseconds, so that a home with nothing to do costs nothing."""

    def __init__(self, database: str) -> None:
        self._database = database
        self._seen: object = None
        self._rows: list[SessionRow] = []

    def stamp(self) -> object:
        """Return a value that differs after each change; None while the file is too new to show one."""
        return file_stamp.settled(self._database)

    async def all(self, read: Callable[[], Awaitable[list[SessionRow]]]) -> list[SessionRow]:
        """Return the rows, which are read if they can have changed since the last call."""
        stamp = self.stamp()
        if stamp is None or stamp != self._seen:
            self._rows, self._seen = await read(), stamp
        return self._rows


ACTOR = "agent:api"
"""The actor of a request that does not name one."""
MOST_ACTORS = 100
PATIENCE_HEADER = "Holdfast-Patience"
"""The most seconds that a request waits."""
MOST_ENDED = 1000
"""Requests that are kept in mind because their waiting was ended before they came."""
LAST_SECONDS = 6.0
"""For calls that end on their own, once the server is asked to end; answers have some seconds more."""


FileSigner = Callable[[str, str, str, str, int | None], str]
"""Returns the signature for a session, path, operation, user, and end in seconds since 1970."""
KeySigner = Callable[[str], FileSigner]
"""Returns the signer of an access key, by its id; of the server's token if it is empty."""


class Callers:
    """The state that all requests share: controllers, threads, figures, and waiting requests."""

    def __init__(self, home: Home, progress: Progress) -> None:
        self.home = home
        self.brief = CallThreads(MOST_BRIEF, MOST_BRIEF_OF_SESSION)
        self.waiting = CallThreads(MOST_WAITING, MOST_WAITING_OF_SANDBOX)
        self.metrics = ServerMetrics(lambda: self.waiting.running, lambda: self.brief.running)
        self.rows = SessionRows(home.below("holdfast.db"))
        self.seen = SeenRows(home.below("holdfast.db"))
        self.keys = AccessKeys(home.root)
        self.trail: AuditTrail | None = None
        """Gets a row for each request, if the server is to have one."""
        self._progress = progress
        self._controllers: OrderedDict[str, Holdfast] = OrderedDict()
        self._lock = threading.Lock()
        self._patient: dict[Patience, str | None] = {}
        self._ended_before: OrderedDict[str, bool] = OrderedDict()
        self.signature: KeySigner | None = None
        """Makes the signatures of addresses of files; the door that takes them sets it."""
        self.lifetime_changed: Callable[[], None] = lambda: None
        """Called on the loop when a lifetime has changed; the task that carries out lifetimes sets it."""
        self.notices: object = None
        """The task that notifies people of sessions, which sets it."""
        self.places: SessionPlaces | None = None
        """Tells where sessions are, on a server that is a node of a cluster."""
        self.serving: ServingRecord | None = None
        """The record by which other processes find this server, once it serves."""
        self.links = SessionLinks()
        """Connections of ssh into sessions."""
        self.stopping = False
        self.stopped = asyncio.Event()
        """Set in the loop when the server is asked to end."""

    def controller(self, actor: str) -> Holdfast:
        """Return the controller of an actor.

        Raises:
            InvalidArgument: the actor is not valid.
        """
        name = actors.checked(actor)
        with self._lock:
            found = self._controllers.pop(name, None)
            if found is None:
                found = Holdfast(self.home, actor=name, progress=self._progress)
            self._controllers[name] = found
            while len(self._controllers) > MOST_ACTORS:
                self._controllers.popitem(last=False)  # calls that use it still hold it
            return found

    async def session_rows(self, actor: str) -> list[SessionRow]:
        """Return the rows of all sessions, for tasks of the server that look now and then."""
        return await self.seen.all(lambda: self.brief.run(lambda: self.controller(actor).store.sessions()))

    def patience(self, seconds: float | None = None, request: str | None = None) -> Patience:
        """Return the patience of a call, which ends when the server stops; `request` is its request."""
        made = Patience(seconds)
        self._patient[made] = request
        if self.stopping or (request is not None and self._ended_before.pop(request, False)):
            made.end()
        return made

    def end_wait(self, request: str) -> None:
        """End the patience of a request, by its id; of a later request, when it comes."""
        found = [patience for patience, made_by in self._patient.items() if made_by == request]
        for each in found:
            each.end()
        if not found:
            self._ended_before[request] = True
            while len(self._ended_before) > MOST_ENDED:
                self._ended_before.popitem(last=False)

    def done(self, patience: Patience) -> None:
        """Forget the patience of a call that has returned."""
        self._patient.pop(patience, None)

    async def away(self, scope: Scope, *, admitted: bool) -> Away | None:
        """Return the answer to a request for a session that another node of the cluster has."""
        places = self.places
        if places is None or not (ref := route_target.session_in(scope)) or self._has(ref):
            return None
        request = PlacedRequest.of(scope, admitted=admitted)
        try:
            return await self.brief.run(lambda: places.away(ref, request), ref)
        except HoldfastError as error:
            return session_places.again(str(error).removeprefix("cannot answer: "))

    def _has(self, ref: str) -> bool:
        try:
            return self.rows.find(ref) is not None
        except SessionNotFound:
            return False
        except InvalidArgument:  # several have an id that begins like that
            return True

    def stop(self) -> None:
        """Let waiting calls return, with the place where to continue; other calls have a few seconds."""
        self.stopping = True
        asyncio.get_running_loop().call_later(LAST_SECONDS, self.brief.give_up)
        self.stopped.set()
        for each in list(self._patient):
            each.end()

    def close(self) -> None:
        """Close the resources of all requests, after the last answer."""
        self.rows.close()
        self.keys.close()
        if self.trail is not None:
            self.trail.close()


def chosen_actor(connection: HTTPConnection, default: str) -> str:
    """Return the actor of a request: holders of the server's own token choose it, a key has one."""
    told = connection.headers.get(ACTOR_HEADER)
    key: AccessKey | None = connection.scope.get(KEY)
    return told or default if key is None else key.acts_as(told)


class ApiCaller:
    """The caller of one request."""

    share: str | None = None
    """The session with whose calls its own are counted if they wait; None for all that one server may do."""

    def __init__(self, connection: HTTPConnection, callers: Callers, actor: str) -> None:
        self.connection = connection
        self.all = callers
        self.access_key: AccessKey | None = connection.scope.get(KEY)
        self._actor = actor

    @property
    def actor(self) -> str:
        """The actor that it acts as."""
        return self._actor

    @property
    def request(self) -> Request:
        """The request."""
        assert isinstance(self.connection, Request)
        return self.connection

    def audit(self, what: str, session: str, seconds: float, status: int = 200) -> None:
        """Add a call of a connection to the audit trail; requests are added by the gate."""
        if self.all.trail is None:
            return
        row = AuditedRequest(
            time.time() - seconds, self._actor, self.access_key.id if self.access_key else SERVER_KEY,
            "CALL", what, session, status, request_id() or "", round(seconds, 4),
        )  # fmt: skip
        self.all.trail.note(row)

    def holdfast(self) -> Holdfast:
        """Return the caller's controller; in a thread, since opening it can take a moment."""
        return self.all.controller(self._actor)

    def session(self, ref: str) -> Session:
        """Return a session; in a thread."""
        controller, row = self.holdfast(), self.all.rows.find(ref)
        return controller.session(ref) if row is None else Session(controller.context, row)

    async def brief(self, work: Callable[[Holdfast], Result]) -> Result:
        """Run finite work, and return its result."""
        return await self.all.brief.run(lambda: work(self.holdfast()))

    async def in_session(self, ref: str, work: Callable[[Session], Result]) -> Result:
        """Run finite work with a session, and return its result."""
        return await self.all.brief.run(lambda: work(self.session(ref)), ref)

    async def waits(self, work: Callable[[], Result]) -> Result:
        """Run work of any length, and return its result."""
        return await self.all.waiting.run(work, self.share)

    async def patiently(
        self, ref: str, seconds: float | None, work: Callable[[Session, Patience], Result]
    ) -> Result:
        """Run work with a session that waits, until it is done, the client leaves, or the server stops."""
        return await self.while_there(seconds, lambda patience: work(self.session(ref), patience))

    async def while_there(self, seconds: float | None, work: Callable[[Patience], Result]) -> Result:
        """Run work that waits, until it is done, the client leaves or ends it, or the server stops."""
        limits = [each for each in (seconds, self._most_seconds()) if each is not None]
        patience = self.all.patience(min(limits, default=None), request_id())
        leaving = asyncio.create_task(self._leaves(patience))
        try:
            return await self.waits(lambda: work(patience))
        finally:
            leaving.cancel()
            self.all.done(patience)

    def _most_seconds(self) -> float | None:
        """Return how long the client waits.

        Raises:
            InvalidArgument: it is not a number of seconds.
        """
        told = self.connection.headers.get(PATIENCE_HEADER)
        try:
            return call_arguments.patience(None if told is None else float(told), "patience")
        except ValueError:
            return call_arguments.patience(told, "patience")

    async def _leaves(self, patience: Patience) -> None:
        while (await self.request.receive())["type"] != "http.disconnect":
            pass
        patience.end()


async def caller(request: Request) -> ApiCaller:
    """Return the caller of a request, for the functions of paths.

    It waits for nothing; but what is not `async` would be called in a thread, there and back.
    """
    found: Callers = request.app.state.callers
    return ApiCaller(request, found, chosen_actor(request, ACTOR))


From = Annotated[ApiCaller, Depends(caller)]
"""The caller of a request, as a parameter of its path."""
