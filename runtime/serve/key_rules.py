"""The rules of access keys: the scopes that each operation needs, and the session that a key is for.

One table for the operations of all doors, calls of channels and tools of agents included. An operation
outside of it is open to the server's own token alone; `tests/runtime/doors/test_access_keys.py` compares it
with the routes.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from starlette.requests import HTTPConnection, Request

from holdfast.base.text import plain
from holdfast.errors import HoldfastError, NotPermitted, SessionNotFound
from holdfast.runtime.access import shared_links
from holdfast.runtime.access.access_keys import AccessKey
from holdfast.runtime.http_doors.admission import KEY, SANDBOX
from holdfast.runtime.serve.callers import Callers
from holdfast.runtime.serve.channels.channel_messages import OpenMessage

ANYONE: tuple[str, ...] = ()
"""Does not take a scope: sessions are not concerned, or each of its calls is checked."""
_SEE, _RUN, _START, _CHANGE = (
    ("sessions:read",),
    ("sessions:exec",),
    ("sessions:create",),
    ("sessions:change",),
)
_AGAIN = (*_START, *_RUN)
_LOOK, _CAPTURE = ("snapshots:read",), ("snapshots:create",)
_READ, _WRITE, _TASK = ("files:read",), ("files:write",), ("tasks:write",)
_LINK = ("ports:preview",)
_TOLD = (*_SEE, "notices:write")
_SHARE = (*_SEE, "sessions:share")
OPERATIONS: Mapping[str, tuple[str, ...]] = {
    "server.health": ANYONE,
    "server.end_wait": ANYONE,  # by the id of a request, which its sender knows
    "channels": ANYONE,
    "server.metrics": ("server:read",),
    "cluster.route": ("server:read",),
    "sessions.list_sessions": _SEE,
    "sessions.new": _START,
    "sessions.get_session": _SEE,
    "sessions.remove": ("sessions:remove",),
    "sessions.lifetime": _CHANGE,
    "sessions.set_labels": _CHANGE,
    "sessions.snapshot": _CAPTURE,
    "sessions.template": _CAPTURE,
    "sessions.check": _SEE,
    "sessions.fork": _START,
    "sessions.suspend": _CHANGE,
    "sessions.resume": _CHANGE,
    "sessions.rewind": _CHANGE,
    "sessions.network": _SEE,
    "sessions.change_network": ("network:change",),
    "sessions.policy": _CHANGE,
    "shells.exec_": _RUN,
    "shells.join": _SEE,
    "shells.answer": _RUN,
    "shells.interrupt": _RUN,
    "shells.check_syntax": _RUN,
    "shells.list_shells": _SEE,
    "shells.open_shell": _RUN,
    "shells.get_shell": _SEE,
    "shells.close_shell": _RUN,
    "shells.screen": _SEE,
    "shells.type_text": _RUN,
    "shells.get_lease": _SEE,
    "shells.change_lease": ("lease:take",),
    "kernels.cell": _RUN,
    "kernels.join_cell": _SEE,
    "kernels.answer_cell": _RUN,
    "kernels.list_kernels": _SEE,
    "kernels.list_kernel_specs": _SEE,
    "kernels.open_kernel": _RUN,
    "kernels.close_kernel": _RUN,
    "kernels.interrupt_kernel": _RUN,
    "kernels.restart_kernel": _RUN,
    "programs.run": _RUN,
    "programs.list_programs": _SEE,
    "programs.start": _RUN,
    "programs.get_program": _SEE,
    "programs.follow": _SEE,
    "programs.write": _RUN,
    "programs.signal": _RUN,
    "jobs.list_jobs": _SEE,
    "jobs.start": _RUN,
    "jobs.get_job": _SEE,
    "jobs.follow": _SEE,
    "jobs.type_text": _RUN,
    "jobs.resize": _RUN,
    "jobs.signal": _RUN,
    "ports.ports": _SEE,
    "ports.port": _SEE,
    "ports.wait_port": _SEE,
    "ports.preview": _LINK,
    "ports.revoke_preview": _LINK,
    "keys.list_keys": ("keys:read",),
    "keys.make_key": ("keys:change",),
    "keys.revoke_key": ("keys:change",),
    "audit.list_requests": ("audit:read",),
    "sharing.shares": _SHARE,
    "sharing.share": _SHARE,
    "sharing.revoke_share": _SHARE,
    "ssh": _RUN,
    "insight.pulse": _SEE,
    "insight.metrics": _SEE,
    "insight.journal": _SEE,
    "insight.drift": _SEE,
    "insight.events": _SEE,
    "insight.watch": _READ,
    "recordings.recording": _SEE,
    "recordings.events": _SEE,
    "recordings.cast": _SEE,
    "files.read": _READ,
    "files.write": _WRITE,
    "files.stat": _READ,
    "files.list_folder": _READ,
    "files.find": _READ,
    "files.change_mode": _WRITE,
    "files.replace": _WRITE,
    "files.write_many": _WRITE,
    "files.make_folder": _WRITE,
    "files.sign_address": (*_READ, *_WRITE),
    "files.move": _WRITE,
    "files.remove": _WRITE,
    "files.read_tree": _READ,
    "files.write_tree": _WRITE,
    "snapshots.list_snapshots": _LOOK,
    "snapshots.diff": _LOOK,
    "snapshots.get_snapshot": _LOOK,
    "snapshots.remove_snapshot": ("snapshots:remove",),
    "snapshots.pin": _CAPTURE,
    "snapshots.fits": _LOOK,
    "snapshots.recorded": _LOOK,
    "snapshots.actions": _LOOK,
    "snapshots.redo": _AGAIN,
    "snapshots.restore": _START,
    "snapshots.fork": _START,
    "snapshots.retry": _AGAIN,
    "task.board": _SEE,
    "task.report": _SEE,
    "task.record": _SEE,
    "task.markdown": _SEE,
    "task.handoff": _SEE,
    "task.orphans": _SEE,
    "task.set_": _TASK,
    "task.plan": _TASK,
    "task.import_": _TASK,
    "task.step": _TASK,
    "task.claim": _TASK,
    "task.release": _TASK,
    "task.decide": _TASK,
    "task.alternative": _TASK,
    "task.answer": _TASK,
    "task.note": _TASK,
    "task.read_again": (*_TASK, *_READ),
    "task.artifact": (*_TASK, *_READ),
    "task.collect_artifacts": (*_TASK, *_READ),
    "task.drop": _TASK,
    "task.block": (*_TASK, *_CHANGE),
    "task.unblock": _TASK,
    "task.done": (*_TASK, *_RUN),
    "task.attempt": _TASK,
    "task.checkpoint": (*_TASK, *_CAPTURE),
    "task.resume": (*_TASK, *_RUN),
    "notices.list_subscriptions": _TOLD,
    "notices.subscribe": _TOLD,
    "notices.push_key": _TOLD,
    "notices.unsubscribe": _TOLD,
    "notices.try_out": _TOLD,
    "artifacts.artifacts": _READ,
    "artifacts.entry": _READ,
    "artifacts.content": _READ,
    "artifacts.remove": ("artifacts:remove",),
}
"""The scopes of operations, by their ids in the OpenAPI document."""
OF_WIRES: Mapping[str, tuple[str, ...]] = {
    "e2b.control.create_first": _START,
    "e2b.control.create_second": _START,
    "e2b.control.list_running": _SEE,
    "e2b.control.list_sandboxes": _SEE,
    "e2b.control.metrics_of_all": _SEE,
    "e2b.control.look": _SEE,
    "e2b.control.kill": ("sessions:remove",),
    "e2b.control.connect": _CHANGE,
    "e2b.control.change_end": _CHANGE,
    "e2b.control.refresh": _CHANGE,
    "e2b.control.pause": _CHANGE,
    "e2b.control.take_snapshot": _CAPTURE,
    "e2b.control.list_snapshots": _LOOK,
    "e2b.control.remove_snapshot": ("snapshots:remove",),
    "e2b.control.fork": _START,
    "e2b.control.metrics": _SEE,
    "e2b.control.change_network": ("network:change",),
    "e2b.process.list_processes": _SEE,
    "e2b.process.start": _RUN,
    "e2b.process.connect": _SEE,
    "e2b.process.update": _RUN,
    "e2b.process.send_input": _RUN,
    "e2b.process.stream_input": _RUN,
    "e2b.process.close_input": _RUN,
    "e2b.process.send_signal": _RUN,
    "e2b.folders.look_at": _READ,
    "e2b.folders.list_folder": _READ,
    "e2b.folders.make_folder": _WRITE,
    "e2b.folders.move": _WRITE,
    "e2b.folders.remove": _WRITE,
    "e2b.watches.watch": _READ,
    "e2b.watches.create_watcher": _READ,
    "e2b.watches.watcher_events": _READ,
    "e2b.watches.remove_watcher": _READ,
    "e2b.daemon.health": ANYONE,
    "e2b.daemon.envs": _RUN,
    "e2b.daemon.compose": _WRITE,
    "e2b.files.download": _READ,
    "e2b.files.upload": _WRITE,
    "e2b.code.health": ANYONE,
    "e2b.code.run_code": _RUN,
    "e2b.contexts.make_context": _RUN,
    "e2b.contexts.list_contexts": _SEE,
    "e2b.contexts.remove_context": _RUN,
    "e2b.contexts.restart_context": _RUN,
    "e2b.ports": _LINK,
    "swerex.is_alive": _SEE,
    "swerex.create_session": _RUN,
    "swerex.run_in_session": _RUN,
    "swerex.close_session": _RUN,
    "swerex.execute": _RUN,
    "swerex.read_file": _READ,
    "swerex.write_file": _WRITE,
    "swerex.upload": _WRITE,
    "swerex.close": _RUN,
    "jupyter.version": ANYONE,
    "jupyter.status": _SEE,
    "jupyter.specs": _SEE,
    "jupyter.spec": _SEE,
    "jupyter.kernels": _SEE,
    "jupyter.start": _RUN,
    "jupyter.kernel": _SEE,
    "jupyter.leave": _SEE,
    "jupyter.interrupt": _RUN,
    "jupyter.restart": _RUN,
    "jupyter.channels": _RUN,
    "jupyter.notebooks": _SEE,
    "jupyter.notebook": _SEE,
    "jupyter.open_notebook": _RUN,
    "jupyter.change_notebook": _RUN,
    "jupyter.close_notebook": _RUN,
    "page.ticket": ANYONE,  # what a page may do is what the key may
}
"""Those of other wires, by wire, part and function."""
CALLS: Mapping[str, tuple[str, ...]] = {
    "exec": _RUN,
    "join": _SEE,
    "answer": _RUN,
    "cell": _RUN,
    "join_cell": _SEE,
    "answer_cell": _RUN,
    "run": _RUN,
    "program": _SEE,
    "job": _SEE,
    "events": _SEE,
    "watch": _READ,
    "terminal": _RUN,
    "attach": _RUN,
}
"""The scopes of calls of channels."""
_SEEN_ONLY: Mapping[str, str] = {"terminal": "view", "attach": "read_only"}
"""The argument with which nothing can be typed into a terminal: then it is seen, and no more."""
_OPTIONS: Mapping[str, str] = {
    "mounts": "host:mounts",
    "secrets": "secrets:use",
    "network": "network:change",
    "allow": "network:change",
    "domains": "network:change",
}
"""Fields of a request for a session that take a scope more; a network of `none` and denials take none."""


async def permitted(connection: HTTPConnection) -> None:
    """Check that the key of a request, if it has one, allows its operation.

    A session named in the path is replaced by its id, so that the operation uses the checked one.

    Raises:
        NotPermitted: it does not.
        SessionNotFound: a request with a key for one session does not name that.
    """
    key: AccessKey | None = connection.scope.get(KEY)
    if key is None:
        return
    route = connection.scope["route"]
    operation = getattr(route, "unique_id", route.name)
    check(key, OPERATIONS.get(operation, OF_WIRES.get(operation)), operation)
    if isinstance(connection, Request) and operation in _WITH_OPTIONS:
        with suppress(ValueError):  # what is not JSON is refused right after this
            check(key, _of_fields(await connection.json(), operation), operation)
    if not key.session or operation in ("channels", "server.health", "server.end_wait"):
        return
    if connection.scope.get(SANDBOX) == key.session:
        return
    found = connection.path_params
    name = next((each for each in ("session", "sandbox") if each in found), None)
    if name is None:
        raise of_one_session(key)
    found[name] = session_of(connection.app.state.callers, key, found[name])


def opens_ports(key: AccessKey) -> bool:
    """Return whether a key opens the ports of its sessions."""
    return key.scopes.issuperset(OF_WIRES["e2b.ports"])


def of_one_session(key: AccessKey) -> NotPermitted:
    """Return the error of a request beyond the only session of its key."""
    return NotPermitted(f"cannot do that: the key {key.name} is for one session, {key.session}")


def permitted_here(connection: HTTPConnection, operation: str, session: str | None) -> str | None:
    """Return the only session that an operation can reach, where paths do not have to name one; None for
    all.

    Raises:
        NotPermitted, SessionNotFound: as `permitted`.
    """
    key: AccessKey | None = connection.scope.get(KEY)
    if key is None:
        return session
    check(key, OF_WIRES.get(operation), operation)
    if not key.session:
        return session
    return key.session if session is None else session_of(connection.app.state.callers, key, session)


@dataclass(frozen=True, slots=True)
class AllowedCall:
    """A call of a channel as a key allows it: in this session; `is_seen_only` if typing is forbidden."""

    session: str
    is_seen_only: bool = False


def permit_call(callers: Callers, key: AccessKey | None, message: OpenMessage) -> AllowedCall:
    """Return a call of a channel as a key allows it; raises as `permitted` does."""
    if key is None:
        return AllowedCall(message.session)
    seen = _SEEN_ONLY.get(message.call)
    only_seen = seen is not None and message.args.get(seen) is True
    check(key, _SEE if only_seen else CALLS.get(message.call), message.call)
    if message.args.get("take"):
        check(key, ("lease:take",), message.call)
    session = session_of(callers, key, message.session) if key.session else message.session
    return AllowedCall(session, only_seen)


def session_of(callers: Callers, key: AccessKey, ref: str) -> str:
    """Return the id of the only session of a key, if the request names it.

    Raises:
        SessionNotFound: it names a different one. A key does not tell which sessions there are.
    """
    with suppress(HoldfastError):
        row = callers.rows.find(ref)
        if ref == key.session or (row is not None and row.id == key.session):
            return key.session
    raise SessionNotFound(
        f"cannot find session '{plain(ref, 60)}'", hint=f"the key {key.name} is for a different session"
    )


def _of_fields(body: Any, operation: str) -> tuple[str, ...]:
    """Return the scopes that the fields of a request need beyond its operation's own."""
    fields = body if isinstance(body, Mapping) else {}
    more = {
        scope
        for name, scope in _OPTIONS.items()
        if fields.get(name) and (name, fields[name]) != ("network", "none")
    }
    if operation == "sharing.share" and fields.get("typing"):
        more.update(shared_links.SCOPES[shared_links.TYPE])  # no one shares more than they have
    if operation == "sessions.lifetime" and fields.get("then") == "remove":
        more.add("sessions:remove")
    return tuple(sorted(more))


def check(key: AccessKey, needed: tuple[str, ...] | None, what: str) -> None:
    """Check that a key has the scopes that something needs; None if no key has enough.

    Raises:
        NotPermitted: it lacks one.
    """
    if needed is None:
        raise NotPermitted(
            f"cannot do that: no access key allows {what}", hint="the server's own token opens it"
        )
    lacking = [each for each in needed if each not in key.scopes]
    if lacking:
        raise NotPermitted(
            f"cannot do that: the key {key.name} lacks the scope {' and '.join(lacking)}",
            hint="`holdfast access new` makes a key that has it",
        )


_WITH_OPTIONS = frozenset(
    {
        "sessions.new",
        "sessions.fork",
        "sessions.lifetime",
        "sharing.share",
        "snapshots.restore",
        "snapshots.fork",
    }
)
"""Operations whose fields can take an additional scope."""
