"""The teams of one server: each has all doors, tasks and figures of its own, in front of its own home.

A request goes to the doors of one team, which let it in or not, as a server for that home alone does:
the choice opens nothing. It is made by the header that names a team, by the id in a key or in the ticket of a
page, or by the session whose port or sandbox is asked for. All other requests are for the home of the server
itself, and so is sign-in, from where people get keys of their teams.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import logging
import math
import re
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

from holdfast.base import serving_record
from holdfast.base.home import Home
from holdfast.base.serving_record import ServingRecord
from holdfast.base.text import plain
from holdfast.errors import HoldfastError
from holdfast.runtime.access import teams
from holdfast.runtime.access.teams import Team
from holdfast.runtime.cli.served_doors import ServedDoors
from holdfast.runtime.e2b import sandbox_access
from holdfast.runtime.http_doors import admission
from holdfast.runtime.http_doors.admission import Receive, Refusal, Scope, Send
from holdfast.runtime.http_doors.sign_in_wire import FIRST as SIGN_IN
from holdfast.runtime.serve.api_server import until_next
from holdfast.runtime.serve.server_metrics import ServerMetrics

if TYPE_CHECKING:
    from holdfast.runtime.sign_in.people_homes import PeopleHome

HEADER = admission.TEAM_HEADER.lower().encode()
LOOK_SECONDS = 1.0
"""How long the tasks of a removed team continue, and a new team waits, if no request is for it."""
SESSION_SECONDS = 10.0
"""How long the team of a session is remembered: sessions move."""
MOST_KNOWN = 10_000
_KEY = re.compile(rb"(?:h[fpt]|e2b)_([0-9a-f]{12})")
_SEVERAL: Refusal = (400, "bad_request", "the request has the header Holdfast-Team several times")
_UNKNOWN: Refusal = (404, "team_not_found", "the team does not exist")
logger = logging.getLogger("holdfast.serve")
MakeDoors = Callable[[Home, str], ServedDoors]
"""Returns the doors of a home, whose tokens are made from a secret."""


class ServedTeam:
    """A team while it is served. Its doors are entered and left by one task."""

    def __init__(self, team: Team, doors: ServedDoors, record: ServingRecord | None, secret: str) -> None:
        self.team, self.doors, self.secret = team, doors, secret
        self._ended = asyncio.Event()
        self._left = asyncio.Event()
        self._ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._record = record and replace(record, stamp=serving_record.stamp_of(secret))
        doors.callers.serving = self._record
        self._answering: set[asyncio.Task[object]] = set()
        self._task = asyncio.create_task(self._live())

    @cached_property
    def people(self) -> PeopleHome:
        """The home of the team, for people who sign in."""
        return self.doors.people(self.team.name)

    def has(self, id_: str) -> bool:
        """Return whether this is the id of a key of the team, or the id in pages of the server's token.

        Raises:
            StoreError: the keys cannot be read.
        """
        return self.doors.pages.token_id == id_ or self.doors.callers.keys.has(id_)

    async def answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request by the doors of the team."""
        if not self._ready.done():
            await asyncio.shield(self._ready)
        self._ready.result()
        task = asyncio.current_task()
        assert task is not None
        self._answering.add(task)
        try:
            await self.doors.app(scope, receive, send)
        finally:
            self._answering.discard(task)

    def stop(self) -> None:
        """Let what waits return, as at the end of a server."""
        if not self._ended.is_set():
            self.doors.callers.stop()
            self._ended.set()

    async def ended(self) -> None:
        """Wait until its tasks have ended."""
        await asyncio.wait({self._task})

    async def leave(self, *, at_once: bool) -> None:
        """End the team's tasks; with `at_once`, requests are cut that are still being answered."""
        self.stop()
        if at_once:
            for each in self._answering:
                each.cancel()
        self._left.set()
        await self.ended()

    async def _live(self) -> None:
        try:
            async with AsyncExitStack() as stack:
                if self._record is not None:
                    stack.enter_context(serving_record.announced(self.team.home, self._record))
                for each in self.doors.beside:
                    await stack.enter_async_context(each())
                self._ready.set_result(None)
                await self._left.wait()
        except (HoldfastError, OSError) as error:
            logger.error("cannot serve team %s: %s", self.team.name, plain(str(error), 400))
            if not self._ready.done():
                self._ready.set_exception(error)
                self._ready.exception()  # it was logged
        finally:
            self.doors.callers.close()
            if "people" in self.__dict__:
                self.people.owners.close()


class ServedTeams:
    """The application of a server whose home has teams, or gets some while it runs.

    Args:
        main: the doors of the server's own home.
        token: the server's own token, which opens the doors of any team that a request names.
        make: makes the doors of a team.
    """

    def __init__(self, main: ServedDoors, token: str, make: MakeDoors) -> None:
        self._main, self._token, self._make = main, token, make
        self._home = main.callers.home
        self._served: dict[str, ServedTeam] = {}
        self._found: dict[str, tuple[str, float]] = {}
        main.callers.metrics.teams = self._metrics
        if main.sign_in is not None:
            main.sign_in.team = lambda name: _people(self._of_name(name))
            main.sign_in.holder = lambda id_: _people(self._with_key(id_))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request by the doors of the team that it is for."""
        found = await self._team_of(scope)
        if found is None:
            await self._main.app(scope, receive, send)
        elif isinstance(found, ServedTeam):
            await found.answer(scope, receive, send)
        else:
            known = self._main.rules.has_token(scope)
            await admission.refuse(scope, send, found if known else admission.NO_TOKEN)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Serve the teams while the block runs, new ones as well."""
        with suppress(HoldfastError):  # the keys that are shared by machines are followed from now on
            self._main.callers.keys.has("")
        self._look()
        watching = asyncio.create_task(self._watch())
        stopping = asyncio.create_task(self._stop())
        try:
            yield
        finally:
            watching.cancel()
            stopping.cancel()
            await asyncio.gather(*(each.leave(at_once=False) for each in self._served.values()))

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(until_next(LOOK_SECONDS))
            try:
                there = self._look()
                for name in set(self._served) - there:
                    await self._served.pop(name).leave(at_once=True)
            except (HoldfastError, OSError) as error:
                logger.error("cannot look for teams: %s", plain(str(error), 400))

    async def _stop(self) -> None:
        await self._main.callers.stopped.wait()
        for each in self._served.values():
            each.stop()

    def _look(self) -> set[str]:
        """Serve teams that are new; return the names of all that exist."""
        teams.match(self._home)
        there = set(teams.names(self._home))
        for name in there - set(self._served):
            self._begin(name)
        return there

    def _begin(self, name: str) -> ServedTeam | None:
        try:
            team = teams.find(self._home, name)
            if team is None:
                return None
            # Neither the token nor the folder alone is enough to make the tokens of the team.
            secret = hmac.new(self._token.encode(), team.secret.encode(), hashlib.sha256).hexdigest()
            served = ServedTeam(team, self._make(team.home, secret), self._main.callers.serving, secret)
        except (HoldfastError, OSError) as error:
            logger.error("cannot serve team %s: %s", name, plain(str(error), 400))
            return None
        self._served[name] = served
        return served

    def _of_name(self, name: str) -> ServedTeam | None:
        """Return a team that exists, served from now on."""
        found = self._served.get(name) or self._begin(name)
        return found if found is not None and found.team.exists else None

    async def _team_of(self, scope: Scope) -> ServedTeam | Refusal | None:
        """Return the team that a request is for; None for the home of the server itself."""
        headers, path = scope.get("headers", ()), scope.get("path", "")
        if path == SIGN_IN or path.startswith(f"{SIGN_IN}/"):
            return None
        told = [value for name, value in headers if name == HEADER]
        if told:
            if len(told) > 1:
                return _SEVERAL
            return self._of_name(told[0].decode("latin-1")) or _UNKNOWN
        if not self._served and not teams.names(self._home):
            return None
        texts = [value for _, value in headers if b"_" in value]
        texts.append(scope.get("query_string", b""))
        for text in texts:
            for found in _KEY.finditer(text):
                if (team := self._with_key(found[1].decode())) is not None:
                    return team
        name = sandbox_access.named(dict(headers))
        session = name.sandbox if name is not None else ""
        if not session:
            given = next((value for key, value in headers if key == sandbox_access.SANDBOX_ID), b"")
            session = given.decode("latin-1")
        return await self._with_session(session) if session and session.isalnum() else None

    def _with_key(self, id_: str) -> ServedTeam | None:
        """Return the team that has a key with this id."""
        if (found := self._known(id_, math.inf)) is not None:
            return found
        self._look()
        for name in list(self._served):
            with suppress(HoldfastError):
                found = self._of_name(name)
                if found is not None and found.has(id_):
                    self._keep(id_, name)
                    return found
        return None

    async def _with_session(self, id_: str) -> ServedTeam | None:
        """Return the team that has a session with this id; of several, the first that had it."""
        if (found := self._known(f"session {id_}", SESSION_SECONDS)) is not None:
            return found
        there = [served for name in list(self._served) if (served := self._of_name(name)) is not None]
        with suppress(HoldfastError):
            name = await self._main.callers.brief.run(lambda: _having(there, self._main, id_))
            if name is not None:
                self._keep(f"session {id_}", name)
                return self._of_name(name)
        return None

    def _known(self, what: str, seconds: float) -> ServedTeam | None:
        """Return the team in which something was found at most that many seconds ago."""
        name, at = self._found.get(what, ("", -math.inf))
        return self._of_name(name) if time.monotonic() - at < seconds else None

    def _keep(self, what: str, name: str) -> None:
        while len(self._found) >= MOST_KNOWN:
            del self._found[next(iter(self._found))]
        self._found[what] = (name, time.monotonic())

    def _metrics(self) -> Mapping[str, ServerMetrics]:
        """Return the figures of the teams, by their names."""
        return {name: each.doors.callers.metrics for name, each in self._served.items()}


def _people(served: ServedTeam | None) -> PeopleHome | None:
    return None if served is None else served.people


def _having(there: list[ServedTeam], main: ServedDoors, id_: str) -> str | None:
    """Return the name of the team with a session; in a thread."""
    found = []
    for name, doors in ((None, main), *((each.team.name, each.doors) for each in there)):
        with suppress(HoldfastError):
            row = doors.callers.rows.find(id_)
            if row is not None and row.id == id_:
                found.append((row.created_at, name))
    return min(found, key=lambda each: each[0])[1] if found else None
