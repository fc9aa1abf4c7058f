"""The receiver of a move: the work of `holdfast receive` on the destination machine.

It obeys one source, which started it by logging in. Each arriving snapshot is imported like any bundle:
signed by a key this home trusts, compared, judged. A session that was started stays, however the connection
ends; the source can ask for it again.
"""

from __future__ import annotations

import hashlib
import os
import re
import tempfile
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, suppress
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, BinaryIO, NoReturn, Self

from holdfast.base import actors, ids, locks
from holdfast.base.text import plain
from holdfast.base.version import VERSION
from holdfast.errors import (
    BundleRefused,
    BundleUntrusted,
    HoldfastError,
    InvalidArgument,
    LiveUnsupported,
    SessionExists,
    StoreError,
)
from holdfast.runtime.journal import host_events
from holdfast.runtime.moving import move_wire, travelling_identity
from holdfast.runtime.moving.travelling_identity import TravellingIdentity
from holdfast.runtime.restore import restore_service
from holdfast.runtime.restore.compat import snapshot_ladder
from holdfast.runtime.sessions import option_table, session_identity
from holdfast.runtime.sessions.session_options import SessionOptions
from holdfast.runtime.sessions.tenures import Tenures
from holdfast.runtime.storage import snapshot_storage
from holdfast.runtime.store import policy
from holdfast.runtime.store.row_details import SessionDetails
from holdfast.runtime.transfer import push_pull
from holdfast.runtime.transfer.bundle_series import ImportSeries
from holdfast.runtime.transfer.receive import receive
from holdfast.runtime.transfer.transfer_options import ReceiveOptions
from holdfast.runtime.verification import verification_result
from holdfast.snapshots.bundle import form, loading, media
from holdfast.snapshots.bundle.endpoints import DIGEST, BlobDescriptor
from holdfast.snapshots.bundle.keys import Keys
from holdfast.snapshots.bundle.resuming import Resuming

if TYPE_CHECKING:
    from holdfast.runtime.operations.context import Context
    from holdfast.runtime.store.rows import SessionRow, SnapshotRow


Fields = Mapping[str, Any]
STARTING = 300.0
"""Seconds to wait for another receiver that is starting the same session."""
LEAST = 1 << 30
"""Bytes that stay free on the disk."""
LEAST_FILES = 10_000
"""Files that can still be made on it, where their number is limited."""
_BLOCK = 1 << 20


def serve(context: Context, incoming: BinaryIO, outgoing: BinaryIO) -> None:
    """Serve one source until the stream ends. Requests that fail are answered with the failure."""
    _say(outgoing, move_wire.greeting(VERSION))
    receiver = Receiver(context, incoming)
    try:
        while True:
            fields = move_wire.read_line(incoming)
            found = receiver.answer(fields)
            if found is not None:
                _say(outgoing, move_wire.line(found))
            receiver.settle()
    except (move_wire.WireBroken, BrokenPipeError):
        receiver.tidy_up()


def _say(outgoing: BinaryIO, text: bytes) -> None:
    outgoing.write(text)
    outgoing.flush()


class Receiver:
    """One move, as its receiver knows it."""

    def __init__(self, context: Context, incoming: BinaryIO) -> None:
        self._context = context
        self._incoming = incoming
        self._folder = context.home.root / "downloads"
        self._parts = Arrivals(self._folder)
        self._imported: dict[str, SnapshotRow] = {}
        self._read: list[Resuming] = []
        self._series = ImportSeries()
        self._started = False
        self._promised: str | None = None
        self._options: dict[str, Any] = {}
        self._failed: HoldfastError | None = None

    def answer(self, fields: Fields) -> dict[str, Any] | None:
        """Carry out a request and return its reply; None for a part, which has none."""
        requests: dict[str, Callable[[Fields], dict[str, Any]]] = {
            "prepare": self._prepare,
            "layers": self._layers,
            "has": self._has,
            "import": self._import,
            "fetch": self._fetch,
            "find": self._find,
            "start": self._start,
        }
        wanted = str(fields.get("do"))
        try:
            if wanted == "put":
                self._put(fields)
                return None
            if self._failed is not None:
                raise self._failed
            if wanted not in requests:
                raise InvalidArgument(f"cannot {wanted[:40]!r}: there is no such request")
            return {"ok": True, **requests[wanted](fields)}
        except HoldfastError as error:
            self._failed = None
            return move_wire.error(error)
        except (TypeError, ValueError, KeyError, AttributeError) as error:
            return move_wire.error(InvalidArgument(f"cannot {wanted[:40]}: {type(error).__name__}: {error}"))

    def _prepare(self, fields: Fields) -> dict[str, Any]:
        """Refuse early what would be refused at the end."""
        actor = actors.checked(str(fields["actor"]))
        reason = fields.get("reason")
        self._context = replace(
            self._context, actor=actor, reason=plain(str(reason), 500) if reason else None
        )
        context, name, key = self._context, str(fields["name"]), str(fields["key"])
        ids.check_name(name)
        if Keys(context.home).trusted(key) is None:
            raise BundleUntrusted(
                f"its signer is not trusted there ({key})",
                hint=f"to let it run sessions from this machine, run there: `holdfast key trust {key}`",
            )
        SessionOptions.parse(**fields["options"])
        self._options = dict(fields["options"])
        if others := self._options.keys() - set(option_table.MOVING):
            raise InvalidArgument(
                f"cannot receive {name}: options cannot be moved ({plain(str(min(others)), 60)})"
            )
        known = fields.get("attempt")
        self._check_identity(travelling_identity.parse(fields.get("identity")), known)
        taken = context.store.session_named(name)
        if taken is not None and (known is None or _attempt_of(taken) != known):
            raise SessionExists(
                f"the name {name} is taken there", hint=f"`holdfast rm {name}` there, if it is not needed"
            )
        context.engine.info()
        return {}

    def _check_identity(self, identity: TravellingIdentity | None, attempt: object) -> None:
        """Refuse a session that runs here as well, or whose id is taken, except by this attempt."""
        if identity is None:
            return
        there = self._context.store.find_session(identity.session_id)
        if there is None or attempt is None or _attempt_of(there) != attempt:
            session_identity.check_claim(self._context.store, identity.session_id, identity.tenures)

    def _layers(self, fields: Fields) -> dict[str, Any]:
        diff_ids = [str(each) for each in fields["diff_ids"]]
        return {"there": loading.there(self._context.engine, diff_ids, self._series.image)}

    def _has(self, fields: Fields) -> dict[str, Any]:
        return {"has": self._parts.has(str(fields["digest"]), int(fields["size"]))}

    def _put(self, fields: Fields) -> None:
        """Store a part; a failure is the reply to the next request."""
        size = move_wire.size_of(fields)
        try:
            self._parts.take(str(fields.get("digest")), size, self._incoming)
        except HoldfastError as error:
            self._failed = self._failed or error

    def _import(self, fields: Fields) -> dict[str, Any]:
        size = move_wire.size_of(fields)
        if size > form.MAX_INDEX:
            raise move_wire.WireBroken("its index is too large")
        index = self._incoming.read(size)
        with Resuming(Arrived(f"a move from {fields['source']}", index), self._folder) as origin:
            options = ReceiveOptions(options=self._options, settle=False, series=self._series)
            row = receive(self._context, origin, options)
        self._read.append(origin)
        found = self._ready(form.described(media.INDEX, index).digest, row)
        return {**found, "kept": self._series.earlier is not None, "stacks": True}

    def _fetch(self, fields: Fields) -> dict[str, Any]:
        wire = push_pull.registry_wire(str(fields["reference"]), plain_http=fields["plain_http"] is True)
        row = push_pull.pull(self._context, wire, ReceiveOptions(options=self._options, settle=False))
        return self._ready(str(fields["bundle"]), row)

    def _ready(self, digest: str, row: SnapshotRow) -> dict[str, Any]:
        """Check that an imported snapshot can continue here."""
        self._imported[digest] = row
        live = snapshot_ladder.ladder(self._context, row).rung("live")
        if not live.possible:
            raise LiveUnsupported("; ".join(live.reasons))
        return {"snapshot": row.id}

    def _find(self, fields: Fields) -> dict[str, Any]:
        """Look for the session of an attempt.

        Without one, promise that there never will be: its source can let it continue. Promises are kept
        permanently, so a connection gets only one.
        """
        store, attempt, name = self._context.store, _attempt(fields), str(fields["name"])
        ids.check_name(name)
        with self._deciding(attempt):
            row = self._session_of(attempt)
            if row is None:
                if self._promised not in (None, attempt):
                    raise InvalidArgument(
                        "cannot look for the session: this connection is for a different session"
                    )
                self._promised = attempt
                given_up = {"attempt": attempt, "state": "given_up"}
                details = SessionDetails().plus(arrival=given_up)
                store.add_session(name, "", {}, state="removed", details=details)
        if row is None or (row.state == "removed" and not _has_arrived(row, attempt)):  # its start was undone
            return {"state": "absent"}
        return {"state": row.state, **_described(row)}

    def _start(self, fields: Fields) -> dict[str, Any]:
        context, attempt = self._context, _attempt(fields)
        identity = travelling_identity.parse(fields.get("identity"))
        if identity is not None and not re.fullmatch(ids.ID, attempt):
            raise InvalidArgument("cannot receive: the attempt to move it lacks a valid id")
        details = SessionDetails().plus(
            arrival={"attempt": attempt},
            policy=_policy(fields.get("policy")),
            labels=identity.labels or None if identity is not None else None,
            sandbox=identity.sandbox if identity is not None else None,
            lifetime=identity.lifetime if identity is not None else None,
            previews=identity.previews if identity is not None else None,
        )
        row = self._imported[str(fields["bundle"])]
        with self._deciding(attempt):
            if self._session_of(attempt) is not None:
                raise SessionExists("it was already requested")
            claim = None
            if identity is not None:
                claim = restore_service.Claim(identity.session_id, identity.tenures, attempt)
            name = str(fields["name"])
            made = restore_service.restore(context, row, name, 1, details=details, identity=claim)[0]
            context.store.keep_details(made.id, arrival={"attempt": attempt, "state": "arrived"})
        host_events.note(context, made.id, "arrived", source=str(fields["source"])[:200])
        self._started = True
        return _described(context.store.session(made.id))

    def settle(self) -> None:
        """Do the work that can wait until the source knows that its session runs."""
        if self._started:
            self._started = False
            for origin in self._read:
                origin.discard()
            snapshot_storage.leave_to_worker(self._context)

    def tidy_up(self) -> None:
        """Remove the imports that no session continues from: earlier ones, and all after a failure."""
        self.settle()
        self._series.close()
        used = {row.parent_snapshot_id for row in self._context.store.sessions()}
        for row in self._imported.values():
            if row.id not in used:
                with suppress(HoldfastError):  # `gc` removes it later
                    snapshot_storage.remove_snapshot(self._context, row)

    def _session_of(self, attempt: str) -> SessionRow | None:
        """Return the session that an attempt brought here, even if it has left and come back in a later
        one."""
        rows = self._context.store.sessions(removed=True)
        found = [row for row in rows if _attempt_of(row) == attempt or _began(row, attempt)]
        return found[-1] if found else None

    def _deciding(self, attempt: str) -> AbstractContextManager[None]:
        """Hold the lock under which it is decided whether the session of an attempt starts here."""
        name = f"move-{hashlib.sha256(attempt.encode()).hexdigest()[:16]}"
        return locks.exclusive(self._context.home.locks, name, "receive the session", STARTING)


def _has_arrived(row: SessionRow, attempt: str) -> bool:
    arrival = row.details.arrival
    return (arrival is not None and arrival.state == "arrived") or _began(row, attempt)


def _began(row: SessionRow, attempt: str) -> bool:
    """Return whether an attempt began a tenure of a session: it is called like that."""
    return Tenures.parse(row.details.tenures).has(attempt)


def _attempt(fields: Fields) -> str:
    """Return the attempt of a request. Its id is stored, so its form is checked.

    Raises:
        InvalidArgument: it has another one.
    """
    attempt = str(fields["attempt"])
    if not re.fullmatch(r"[0-9a-z]{1,32}", attempt):
        raise InvalidArgument("cannot look for the session: that is not the id of a move")
    return attempt


def _attempt_of(row: SessionRow) -> str | None:
    return row.details.arrival.attempt if row.details.arrival else None


def _described(row: SessionRow) -> dict[str, Any]:
    found = verification_result.of(row)
    deviations = [str(one)[:500] for one in found.deviations[:20]] if found is not None else []
    return {"session": row.id, "name": row.name, "deviations": deviations, "hooks": row.details.hooks[:20]}


def _policy(given: Any) -> dict[str, Any] | None:
    return policy.parse(given).as_dict() or None if isinstance(given, dict) and given else None


class Arrivals:
    """The folder of parts."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def has(self, digest: str, size: int) -> bool:
        """Return whether a part is complete.

        Raises:
            BundleRefused: that is not a digest.
        """
        with suppress(FileNotFoundError):
            return self._path(digest).stat().st_size == size
        return False

    def take(self, digest: str, size: int, stream: BinaryIO) -> None:
        """Store a part, the next `size` bytes of the stream, which are read in any case.

        Raises:
            BundleRefused: it does not match its digest, or ends early.
            StoreError: it cannot be written; so little would stay free.
        """
        left = _Counted(stream, size)
        try:
            self._store(digest, size, left)
        except OSError as error:
            if isinstance(error, StoreError):
                raise
            raise StoreError(f"cannot write to {self._folder}: {error.strerror or error}") from error
        finally:
            left.drain()

    def _store(self, digest: str, size: int, data: _Counted) -> None:
        path = self._path(digest)
        self._folder.mkdir(mode=0o700, exist_ok=True)
        room = os.statvfs(self._folder)
        if room.f_bavail * room.f_frsize < size + LEAST:
            raise StoreError(
                f"cannot store what arrives: less than {LEAST >> 20} MiB would stay free",
                hint=f"make room in {self._folder.parent} there",
            )
        if room.f_files and room.f_favail < LEAST_FILES:
            raise StoreError(
                f"cannot store what arrives: fewer than {LEAST_FILES} more files could be made",
                hint=f"remove files on the disk of {self._folder.parent} there",
            )
        found = hashlib.sha256()
        descriptor, name = tempfile.mkstemp(dir=self._folder, prefix=f"{path.name}.", suffix=".part")
        try:
            with os.fdopen(descriptor, "wb") as file:
                while block := data.read(_BLOCK):
                    found.update(block)
                    file.write(block)
            if data.left or f"sha256:{found.hexdigest()}" != digest:
                raise BundleRefused(f"cannot import: {digest[:19]}… does not match its digest")
            Path(name).replace(path)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise

    def _path(self, digest: str) -> Path:
        if not DIGEST.fullmatch(digest):
            raise BundleRefused("cannot import: a part of it lacks a valid digest")
        return self._folder / digest.partition(":")[2]


class Arrived:
    """An origin whose parts have all been sent before; `Resuming` finds them in their folder."""

    def __init__(self, name: str, index: bytes) -> None:
        self.name = name
        self._index = index

    def index(self) -> bytes:
        """Return the index, which came last."""
        return self._index

    def open(self, blob: BlobDescriptor, start: int = 0) -> NoReturn:
        """Refuse: a part that is not in the folder was not sent.

        Raises:
            BundleRefused: always.
        """
        raise BundleRefused(f"cannot import: {blob.digest[:19]}… of it was not sent")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        """Do nothing: there is nothing to close."""


class _Counted:
    """The next bytes of a stream, up to a number."""

    def __init__(self, stream: BinaryIO, size: int) -> None:
        self._stream = stream
        self.left = size

    def read(self, most: int) -> bytes:
        block = self._stream.read(min(most, self.left))
        self.left -= len(block)
        return block

    def drain(self) -> None:
        while self.left and self.read(_BLOCK):
            pass
