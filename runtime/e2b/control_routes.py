"""Paths of the control plane: lives, snapshots, forks, figures and networks of sandboxes, found by id."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Annotated, Any, TypeVar

from fastapi import Depends, Header, Query
from starlette.requests import HTTPConnection, Request
from starlette.responses import JSONResponse, Response

from holdfast.base.text import plain
from holdfast.errors import HoldfastError, InvalidArgument, SessionBusy, SessionDead, SessionNotFound
from holdfast.runtime.api.controller import Holdfast
from holdfast.runtime.api.session import Session
from holdfast.runtime.e2b import connect_wire, control_bodies, sandbox_lives, sandbox_making
from holdfast.runtime.e2b.connect_wire import (
    AlreadyPaused,
    CannotPause,
    NotOffered,
    SandboxBusy,
    SandboxNotFound,
    status_of,
)
from holdfast.runtime.e2b.control_bodies import (
    NEXT_PAGE,
    ConnectBody,
    ForkBody,
    ListQuery,
    NetworkUpdate,
    NewSandbox,
    PauseBody,
    RefreshBody,
    SnapshotBody,
    TimeoutBody,
    page,
)
from holdfast.runtime.e2b.sandbox_access import ACTOR, SandboxIds, SandboxTokens
from holdfast.runtime.e2b.sandbox_lives import SandboxFacts
from holdfast.runtime.e2b.sandbox_making import OnceMade
from holdfast.runtime.lifetimes import waking
from holdfast.runtime.pulse.metrics_history import Metrics, MetricsHistory, Sample, between
from holdfast.runtime.restore import restore_service
from holdfast.runtime.serve import key_rules
from holdfast.runtime.serve.callers import ApiCaller, chosen_actor
from holdfast.runtime.serve.lifetime_task import LifetimeTask
from holdfast.runtime.serve.routes.api_router import wire_router
from holdfast.runtime.store.lifetime import Lifetime
from holdfast.runtime.store.rows import SessionRow, SnapshotRow

Result = TypeVar("Result")


class ControlCaller(ApiCaller):
    """The caller of one request."""

    def __init__(self, connection: HTTPConnection) -> None:
        state = connection.app.state
        super().__init__(connection, state.callers, chosen_actor(connection, ACTOR))
        key = self.access_key
        self.tokens: SandboxTokens = state.tokens.of("" if key is None else key.id)
        self.once: OnceMade = state.once
        self._lives: LifetimeTask = state.lives
        self._ids: SandboxIds = state.ids

    def changed(self) -> None:
        """Announce a new sandbox, or a new end of one; call it on the loop."""
        self._lives.look()
        self._ids.forget()

    @property
    def domain(self) -> str:
        """The domain in addresses of a sandbox's ports; browsers resolve names below localhost."""
        # Clients that know a domain alone call its API by this name.
        named = self.connection.headers.get("host", "localhost").removeprefix("api.")
        host, colon, port = named.rpartition(":")
        if not port.isdecimal():
            host, colon, port = f"{host}{colon}{port}", "", ""
        return f"localhost{colon}{port}" if host in ("127.0.0.1", "[::1]") else f"{host}{colon}{port}"

    def session(self, ref: str) -> Session:
        """Return the session with just this id; in a thread.

        Raises:
            SandboxNotFound: there is none, or its time is over.
        """
        hf = self.holdfast()
        row = hf.store.find_session(ref)
        if row is None or sandbox_lives.ended(row):
            raise SandboxNotFound(
                f"cannot find the sandbox {plain(ref, 64)}: it was killed, or never existed"
            )
        return Session(hf.context, row)

    async def brief(self, work: Callable[[Holdfast], Result]) -> Result:
        """Run finite work, and return its result."""
        with _told():
            return await super().brief(work)

    async def in_session(self, ref: str, work: Callable[[Session], Result]) -> Result:
        """Run finite work with a session, and return its result."""
        with _told():
            return await super().in_session(ref, work)


@contextmanager
def _told() -> Iterator[None]:
    """Translate errors for the control plane: a sandbox that has ended is a 404, a busy one a 503."""
    try:
        yield
    except (SessionNotFound, SessionDead) as error:
        raise _like(SandboxNotFound, error) from error
    except SessionBusy as error:
        raise _like(SandboxBusy, error) from error


def _like(kind: type[HoldfastError], error: HoldfastError) -> HoldfastError:
    return kind(str(error), hint=error.hint)


async def control_caller(request: Request) -> ControlCaller:
    """Return the caller of a request, for the functions of paths."""
    return ControlCaller(request)


router = wire_router("e2b.control")
From = Annotated[ControlCaller, Depends(control_caller)]
Key = Annotated[str | None, Header(alias="idempotency-key")]
States = Annotated[list[str] | None, Query()]
FIRST_SECONDS, SECOND_SECONDS = 15, 300
"""The default timeouts of the two paths that create sandboxes."""


async def _create(who: ControlCaller, body: NewSandbox, key: str | None, seconds: int) -> dict[str, Any]:
    body.check()
    if who.access_key is not None:
        key_rules.check(who.access_key, sandbox_making.wider(body), "this network")
    life = body.lifetime(seconds)

    async def work(facts: SandboxFacts) -> SessionRow:
        return await who.brief(lambda hf: sandbox_making.found_or_made(hf, body, facts, life))

    row = await who.once.made(key, body, body.facts(), work)
    who.changed()
    return control_bodies.sandbox_made(row, who.tokens, who.domain)


@router.post("/sandboxes", status_code=201)
async def create_first(who: From, body: NewSandbox, key: Key = None) -> dict[str, Any]:
    """Make a sandbox."""
    if body.allow_internet_access:
        # Clients of this path always send true, chosen or not: it must not open a closed snapshot.
        body.allow_internet_access = None
    return await _create(who, body, key, FIRST_SECONDS)


@router.post("/v2/sandboxes", status_code=201)
async def create_second(who: From, body: NewSandbox, key: Key = None) -> dict[str, Any]:
    """Make a sandbox."""
    return await _create(who, body, key, SECOND_SECONDS)


async def _list(
    who: ControlCaller, query: ListQuery, limit: int | None, token: str | None, *, oldest_first: bool
) -> JSONResponse:
    def work(hf: Holdfast) -> JSONResponse:
        rows = [each.row for each in hf.sessions() if query.fits(each.row)]
        found = page(rows, limit, token, oldest_first=oldest_first)
        disk = control_bodies.disk_size(str(hf.home.root))
        answer = JSONResponse([control_bodies.sandbox_listed(row, disk) for row in found.rows])
        if found.next_token:
            answer.headers[NEXT_PAGE] = found.next_token
        return answer

    return await who.brief(work)


@router.get("/sandboxes")
async def list_running(who: From, metadata: str | None = None) -> JSONResponse:
    """List the sandboxes that run."""
    return await _list(
        who, ListQuery.parse(metadata, ["running"], None, None), None, None, oldest_first=False
    )


@router.get("/v2/sandboxes")
async def list_sandboxes(
    who: From,
    metadata: str | None = None,
    state: States = None,
    template: str | None = None,
    started_after: Annotated[str | None, Query(alias="startedAfter")] = None,
    order: str = "desc",
    limit: int | None = None,
    token: Annotated[str | None, Query(alias="nextToken")] = None,
) -> JSONResponse:
    """List sandboxes that clients made, in pages."""
    if order not in ("asc", "desc"):
        raise InvalidArgument("cannot list in that order: use asc or desc")
    query = ListQuery.parse(metadata, state or (), template, started_after)
    return await _list(who, query, limit, token, oldest_first=order == "asc")


LATELY_SECONDS = 30.0
"""Within which a sample is one of the present."""


@router.get("/sandboxes/metrics")
async def metrics_of_all(
    who: From, sandbox_ids: Annotated[str, Query(max_length=100 * 100)]
) -> dict[str, Any]:
    """Return the present metrics of sandboxes, by id; sandboxes without a recent sample are left out."""

    def work(hf: Holdfast) -> dict[str, Any]:
        since, found = time.time() - LATELY_SECONDS, {}
        for row in hf.store.sessions():
            if row.id in asked and (kept := MetricsHistory(hf.home.metrics / row.id).metrics(since)):
                found[row.id] = metric(kept[-1])
        return {"sandboxes": found}

    asked = set(sandbox_ids.split(",")[:100])
    return await who.brief(work)


@router.get("/sandboxes/{sandbox}")
async def look(who: From, sandbox: str) -> dict[str, Any]:
    """Return a sandbox."""

    def work(found: Session) -> dict[str, Any]:
        row = found.refresh().row
        if row.state not in ("running", "suspended"):
            raise SandboxNotFound(f"cannot find the sandbox {row.id}: it has ended")
        disk = control_bodies.disk_size(str(who.all.home.root))
        return control_bodies.sandbox_detailed(row, who.tokens, who.domain, disk)

    return await who.in_session(sandbox, work)


@router.delete("/sandboxes/{sandbox}", status_code=204)
async def kill(who: From, sandbox: str) -> Response:
    """End a sandbox."""
    # Not of the sandbox's share: one that does not answer must be possible to end.
    await who.brief(lambda hf: sandbox_lives.kill_sandbox(hf, who.session(sandbox).row))
    return Response(status_code=204)


@router.post("/sandboxes/{sandbox}/connect")
@router.post("/v2/sandboxes/{sandbox}/connect")
@router.post("/sandboxes/{sandbox}/resume")
async def connect(who: From, sandbox: str, body: ConnectBody) -> JSONResponse:
    """Return a running sandbox; a paused one is resumed (201)."""

    def work(found: Session) -> JSONResponse:
        row = found.refresh().row
        resumes = row.state == "suspended"
        if resumes and not body.memory and not Lifetime.of(row.details).files_only:
            raise NotOffered(
                "cannot resume a sandbox without the memory it was paused with: it continues as it was",
                hint="pause it without its memory",
            )
        if resumes:
            row = waking.resume_once(who.holdfast().context, row)
        if row.state != "running":
            raise SandboxNotFound(f"cannot connect to the sandbox {row.id}: it has ended")
        now = time.time()
        sandbox_lives.change_life(
            who.holdfast().store, row.id, lambda kept: kept.given(body.timeout, now, longer=not resumes)
        )
        return JSONResponse(control_bodies.sandbox_made(row, who.tokens, who.domain), 201 if resumes else 200)

    answer = await who.in_session(sandbox, work)
    who.changed()
    return answer


@router.post("/sandboxes/{sandbox}/timeout", status_code=204)
async def change_end(who: From, sandbox: str, body: TimeoutBody) -> Response:
    """Set the end of a sandbox, in seconds from now."""
    return await _end_in(who, sandbox, body.timeout, longer=False)


@router.post("/sandboxes/{sandbox}/refreshes", status_code=204)
async def refresh(who: From, sandbox: str, body: RefreshBody) -> Response:
    """Extend the life of a sandbox, in seconds from now; never shorten it."""
    return await _end_in(who, sandbox, body.duration, longer=True)


async def _end_in(who: ControlCaller, sandbox: str, seconds: int, *, longer: bool) -> Response:
    def work(found: Session) -> None:
        if found.state != "running":
            raise SandboxNotFound(f"cannot change the end of the sandbox {found.id}: it does not run")
        now = time.time()
        if not sandbox_lives.change_life(
            who.holdfast().store, found.id, lambda kept: kept.given(seconds, now, longer=longer)
        ):
            raise InvalidArgument(
                f"cannot give session {found.name} an end: no client of this wire made it", hint="kill it"
            )

    await who.in_session(sandbox, work)
    who.changed()
    return Response(status_code=204)


@router.post("/sandboxes/{sandbox}/pause", status_code=204)
async def pause(who: From, sandbox: str, body: PauseBody | None = None) -> Response:
    """Capture a sandbox, or only its files, then free its memory and processors."""

    def work(found: Session) -> None:
        row = found.refresh().row
        if row.state == "suspended":
            raise AlreadyPaused(f"cannot pause the sandbox {row.id}: it is paused already")
        try:
            sandbox_lives.pause_sandbox(who.holdfast(), row, memory=body is None or body.memory)
        except HoldfastError as error:
            now = who.holdfast().store.find_session(row.id)
            if status_of(error) != 409 or now is None or now.state == "suspended":
                raise
            raise CannotPause(str(error), hint=error.hint) from error

    await who.in_session(sandbox, work)
    return Response(status_code=204)


def _answered(row: SnapshotRow) -> dict[str, Any]:
    return {"snapshotID": row.id, "names": [row.label] if row.label else []}


@router.post("/sandboxes/{sandbox}/snapshots", status_code=201)
async def take_snapshot(who: From, sandbox: str, body: SnapshotBody) -> dict[str, Any]:
    """Capture a sandbox, which continues. A snapshot of the same name is replaced."""

    def work(found: Session) -> dict[str, Any]:
        name = (body.name or "").removesuffix(":default") or None
        if name is not None and body.memory:
            return _answered(found.template(name, replace=True).row)
        # Pinned, so that no retention policy removes it.
        return _answered(found.snapshot(name, "live" if body.memory else "filesystem").pin().row)

    return await who.in_session(sandbox, work)


@router.get("/snapshots")
async def list_snapshots(
    who: From,
    sandbox: Annotated[str | None, Query(alias="sandboxID")] = None,
    name: str | None = None,
    limit: int | None = None,
    token: Annotated[str | None, Query(alias="nextToken")] = None,
) -> JSONResponse:
    """List the requested snapshots, in pages; snapshots of pauses and policies are left out."""

    def work(hf: Holdfast) -> JSONResponse:
        rows = [row for row in hf.store.snapshots(sandbox) if row.label or row.pinned]
        if name is not None:
            rows = [row for row in rows if name.removesuffix(":default") in (row.label, row.id)]
        found = page(rows, limit, token, oldest_first=False)
        answer = JSONResponse([_answered(row) for row in found.rows])
        if found.next_token:
            answer.headers[NEXT_PAGE] = found.next_token
        return answer

    return await who.brief(work)


@router.delete("/templates/{template:path}", status_code=204)
async def remove_snapshot(who: From, template: str) -> Response:
    """Delete a snapshot."""
    await who.brief(lambda hf: hf.remove_snapshot(sandbox_making.snapshot_of(hf, template).id))
    return Response(status_code=204)


@router.post("/sandboxes/{sandbox}/fork", status_code=201)
async def fork(who: From, sandbox: str, body: ForkBody) -> list[dict[str, Any]]:
    """Make sandboxes that continue from this instant: all of them or none."""

    def work(found: Session) -> list[dict[str, Any]]:
        hf, taken = who.holdfast(), found.snapshot()
        own = sandbox_making.copied(SandboxFacts.of(found.row) or SandboxFacts())
        life = sandbox_making.copied_life(Lifetime.of(found.row.details), body.timeout, time.time())
        details = sandbox_making.details_of(own, life)
        try:
            rows = restore_service.restore(
                hf.context, taken.row, None, body.count, details=details, on_touch=True
            )
        except HoldfastError as error:
            taken.remove()
            status, told = connect_wire.status_of(error), connect_wire.sentence(error)
            return [{"error": {"code": status, "message": told}}] * body.count
        for row in rows:
            sandbox_making.handed_over(hf, row, life.life or 0.0)
        return [{"sandbox": control_bodies.sandbox_made(row, who.tokens, who.domain)} for row in rows]

    answer = await who.in_session(sandbox, work)
    who.changed()
    return answer


BETWEEN_SECONDS = 0.2
"""Between the two samples that give the use of processors, of a session without earlier samples."""


@router.get("/sandboxes/{sandbox}/metrics")
async def metrics(
    who: From, sandbox: str, start: int | None = None, end: int | None = None
) -> list[dict[str, Any]]:
    """Return the metrics of a sandbox between two times in Unix seconds, or the present metrics."""

    def work(found: Session) -> list[dict[str, Any]]:
        since = None if start is None else datetime.fromtimestamp(max(0, start), UTC)
        kept = [each for each in found.metrics(since) if end is None or each.at.timestamp() < end + 1]
        return [metric(each) for each in kept or _present(who, found, start, end)]

    return await who.in_session(sandbox, work)


def metric(found: Metrics) -> dict[str, Any]:
    """Return metrics as clients read them.  Pure."""
    return {
        "timestamp": control_bodies.written_time(found.at),
        "timestampUnix": int(found.at.timestamp()),
        "cpuCount": max(1, round(found.processors)),
        "cpuUsedPct": found.processor_percent,
        "memUsed": found.memory_used,
        "memTotal": found.memory_total,
        "memCache": found.memory_cache,
        "diskUsed": found.disk_used,
        "diskTotal": found.disk_total,
    }


def _present(who: ApiCaller, found: Session, start: int | None, end: int | None) -> list[Metrics]:
    """Return the present metrics of a running session, from its own report.

    Root in the session can forge the samples: nothing is decided by them.
    """
    now = time.time()
    if found.state != "running" or (start or 0) > now or (end is not None and end < int(now)):
        return []
    hf, row = who.holdfast(), found.row
    total = int(row.options.get("disk") or 0) or control_bodies.disk_size(str(hf.home.root))
    disk = hf.engine.files.written(row.container_id or ""), total

    def look() -> Sample | None:
        limits = found.pulse(parts=("limits",)).limits
        if limits is None:
            return None
        memory = limits.memory
        sizes = (memory.used or 0, memory.limit or 0, memory.cache or 0, *disk)
        return Sample(time.time(), limits.cpu.seconds or 0.0, control_bodies.processors(row), *sizes)

    before = look()
    time.sleep(BETWEEN_SECONDS)
    after = look()
    return [] if before is None or after is None else list(between([before, after]))


@router.put("/sandboxes/{sandbox}/network", status_code=204)
async def change_network(who: From, sandbox: str, body: NetworkUpdate) -> Response:
    """Replace the rules of a sandbox's network."""
    asked = control_bodies.network_wish(body.allow_internet_access, body)

    def work(found: Session) -> None:
        options = found.row.options
        now = options.get("network", "internet")
        wish = asked if now == "none" else asked.closed
        if now != (wanted := wish.network or "internet"):
            raise InvalidArgument(
                f"cannot change the network of a sandbox from {now} to {wanted} while it lives",
                hint="choose it when a sandbox is made, for example from a snapshot of this one",
            )
        changes: dict[str, Any] = {}
        for name, less in (("domains", "no_domains"), ("allow", "disallow"), ("deny", "no_deny")):
            known, chosen = options.get(name, ()), wish.options(options)[name]
            changes[name] = [each for each in chosen if each not in known]
            changes[less] = [each for each in known if each not in chosen]
        if any(changes.values()):
            found.change_network(**changes)
        if (public := body.allow_public_traffic) is not None:
            sandbox_lives.change_facts(
                who.holdfast().store,
                found.id,
                lambda facts: facts.model_copy(update={"public_ports": public}),
            )

    await who.in_session(sandbox, work)
    return Response(status_code=204)
