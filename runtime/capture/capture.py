"""The capture of a session that continues, or of one that is suspended.

The order of a live capture: start the checkpointer, prepare the guest (it closes its connections), freeze,
keep files and memory, thaw, wake the guest; then digests, manifest, fsync, rename, row. Another process packs
the memory later. A suspension does all of that while frozen, and never thaws.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn

from holdfast.base import run_dir
from holdfast.base.interrupts import held
from holdfast.engine.container_state import ContainerState
from holdfast.errors import CaptureFailed, GuestError, SessionDead
from holdfast.runtime.capture import (
    capture_failures,
    capture_record,
    copied_amounts,
    preflight,
    reuse_check,
)
from holdfast.runtime.capture import capture_record as taken
from holdfast.runtime.capture.long_pause import LongPause
from holdfast.runtime.capture.snapshot_rows import complete
from holdfast.runtime.guest import layout
from holdfast.runtime.guest_rpc.guest_client import GuestClient
from holdfast.runtime.history.drift import baseline
from holdfast.runtime.history.drift.baseline import Baseline
from holdfast.runtime.journal import host_events
from holdfast.runtime.sessions import health, identity_messages
from holdfast.runtime.storage import packing_request, snapshot_storage
from holdfast.runtime.store.row_details import SnapshotDetails
from holdfast.snapshots import (
    earlier_memory,
    files,
    freeze_protocol,
    manifest,
    raw_cache,
    service,
    storage,
)
from holdfast.snapshots.failure import of_row
from holdfast.snapshots.filing import Filing
from holdfast.snapshots.freeze_protocol import CaptureResult
from holdfast.snapshots.layer import unmade_image
from holdfast.snapshots.layer.layer_chain import LayerChain
from holdfast.snapshots.layer.oci import KnownBlobs
from holdfast.snapshots.link import CheckpointerFailed, LinkLost, Target
from holdfast.snapshots.manifest import Manifest, Processes

if TYPE_CHECKING:
    from holdfast.runtime.operations.context import Context
    from holdfast.runtime.store.rows import OperationRow, SessionRow, SnapshotRow
    from holdfast.snapshots.record import RecordedTree


SETTLING = (0.03, 0.06)
"""Seconds between looks at a session that has just woken up, until it is still; its image takes longer."""


@dataclass(frozen=True, slots=True)
class _Prepared:
    """A guest without connections: the inner pid of its root, the token that wakes it, versions."""

    root_pid: int
    token: str
    versions: Mapping[str, Any]
    moment: SnapshotDetails
    pause: LongPause


class Taking:
    """The capture of one snapshot."""

    def __init__(
        self,
        context: Context,
        session: SessionRow,
        operation: OperationRow,
        row: SnapshotRow,
        thawed: Callable[[], None] = lambda: None,
        force_drop: Sequence[str] = (),
    ) -> None:
        self.context = context
        self.session = session
        self.row = row
        self._operation = operation.id
        self._thawed = thawed
        self._ends_session = False
        self._force_drop = force_drop
        self._left_out: list[dict[str, Any]] = []
        self._baseline: Baseline | None = None
        self._task: dict[str, Any] | None = None
        self._watch: reuse_check.ReuseWatch | None = None
        self._remembered: Future[None] | None = None
        self._note: Future[dict[str, Any]] | None = None
        self._versions: Mapping[str, Any] | None = None
        self._is_stored = False
        self._staging = context.home.staging / operation.id
        self._run_dir = context.home.run_dir(session.id)
        found = context.engine.inspect_with_layers(session.container_id or "")
        if found is None or (not found[0].running and row.kind == "live"):
            health.check(context, session.id)
            raise SessionDead(f"cannot snapshot session {session.name}: its container is gone")
        self._container: ContainerState
        self._container, self._layers = found
        health.check_awake(context, session, self._container)
        labels = {
            "holdfast.home": context.home.digest,
            "holdfast.role": "snapshot",
            "holdfast.snapshot": row.id,
            "holdfast.operation": operation.id,
        }
        ask = partial(service.ask, context.engine, context.home, context.progress)
        ref = snapshot_storage.image_ref(row.id)
        known = KnownBlobs(context.home.root / "cache" / "blobs.json")
        chain = LayerChain(context.home.run / session.id / "written", self._container.id)
        place = context.home.snapshots / row.id
        self._files = Filing(
            context.engine, ask, self._container, self._staging, place, ref, labels, known, chain
        )
        self._ask = ask
        self._twins = True
        self._linked: dict[str, str] = {}
        self._memory = self._changed = self._processes = 0
        self._attempts = self._copies_killed = 0

    def suspend_files(self) -> SnapshotRow:
        """Like `filesystem`, but no process runs after that instant. The caller completes the operation."""
        self._ends_session = True
        return self.filesystem()

    def filesystem(self) -> SnapshotRow:
        """Keep the files, as of one instant at which everything in the container is paused."""
        self._staging.mkdir(mode=0o700)
        self._remember()
        moment = SnapshotDetails()
        # Files can be kept without the supervisor, and one of an older version does not know this operation.
        with suppress(GuestError):
            moment = capture_record.moment_of(GuestClient(self._run_dir).request("moment"))
        self._note_task()
        self.context.doing(f"copying the files of {self.session.name}")
        image = self._files.pausing(self._end if self._ends_session else lambda: None)
        self._thawed()
        return self._finish(lambda: image, None, moment)

    def _end(self) -> None:
        """Kill the paused container, in which no process runs when it is continued."""
        self.context.engine.signal(self._container.id, signal.SIGKILL)

    def live(self) -> SnapshotRow:
        """Keep files, memory and processes; the session continues."""
        with _asking() as asking, _beside() as beside:
            self._files.look_ahead(asking)
            self._clear(beside)
            captured, frozen = capture_failures.until_settled(partial(self._attempt, beside), self._refuse)
            self._thawed()
            self._note = beside.submit(self._look_again, frozen.moment)
            return self._finish_live(captured, frozen)

    def suspend(self) -> SnapshotRow:
        """Like `live`, but the processes end once everything is kept. The caller completes the operation."""
        self._ends_session = True
        with _asking() as asking, _beside() as beside:
            self._files.look_ahead(asking, is_last=True)
            self._clear(beside)
        finished: list[SnapshotRow] = []

        def attempt() -> None:
            with self._prepared() as frozen:
                self._capture(frozen, lambda captured: finished.append(self._finish_live(captured, frozen)))

        capture_failures.until_settled(attempt, self._refuse)
        return finished[0]

    def _attempt(self, beside: ThreadPoolExecutor) -> tuple[CaptureResult, _Prepared]:
        watching: Future[reuse_check.ReuseWatch] | None = None
        # Without the descriptors that were left out, the next capture may be refused.
        if not self._force_drop:
            watching = beside.submit(reuse_check.ReuseWatch, self._container, self._layers, self._run_dir)
        with self._prepared(watching) as frozen:
            return self._capture(frozen), frozen

    def _clear(self, beside: ThreadPoolExecutor) -> None:
        """Refuse a capture that would fail, and have `beside` list the present state."""
        self.context.doing(f"checking what would survive of {self.session.name}")
        if not self._force_drop:
            self._remembered = beside.submit(self._remember)
        found = preflight.clear(self.context, self.session, self._container, self._force_drop)
        self._left_out, self._versions = found.left_out, found.versions
        self._memory, self._changed = found.memory_bytes, found.changed_bytes
        self._processes = found.processes
        if self._force_drop:  # what was named has ended now
            self._remembered = beside.submit(self._remember)

    def _look_again(self, moment: SnapshotDetails) -> dict[str, Any]:
        """Copy the journal, and return the note by which the next capture knows whether anything happened."""
        host_events.catch_up(self.context, self.session, moment)
        if self._watch is None or not self._watch.was_still:
            return {}
        for pause in (*SETTLING, 0.0):
            if (note := self._watch.after()) or self._is_stored:
                return note
            time.sleep(pause)
        return {}

    def _remember(self) -> None:
        """Record the session's holdings, for drift. A supervisor of an older version cannot report them."""
        with suppress(GuestError):
            self._baseline = baseline.take_baseline(
                self.context.engine,
                GuestClient(self._run_dir),
                self._container.id,
                self._layers,
                self.session.parent_snapshot_id,
            )

    @contextmanager
    def _prepared(self, watching: Future[reuse_check.ReuseWatch] | None = None) -> Iterator[_Prepared]:
        """Close every connection into the session; it accepts new ones when the block ends.

        Before that, copy files, and wait for callers that inspect the session: they would be in the way.
        """
        self.context.doing(f"preparing {self.session.name}")
        versions = self._versions
        if versions is None:  # the check failed: perhaps a restore is still loading memory
            with self._ask("hello", container=self._container.id) as link:
                self._versions = versions = link.until("done")
        with copied_amounts.files_shown(self.context, self.session.name, self._staging, self._changed):
            self._files.begin()
        if self._remembered is not None:
            self._remembered.result()
        if watching is not None:
            self._watch = watching.result()
        with capture_failures.connected(GuestClient(self._run_dir)) as connection:
            frame = connection.ask("prepare")
            # A half-closed connection to outside would make the capture fail.
            connection.await_close()
        token = capture_record.token_of(frame)

        self._copies_killed = 0

        def wake(event: str, taken: str = "") -> None:
            identity_messages.wake(self._run_dir, self.session, token, event, taken, self._copies_killed)

        pause = LongPause(partial(wake, "later"))
        moment = capture_record.moment_of(frame)
        prepared = _Prepared(capture_record.root_of(frame), token, versions, moment, pause)
        taken, event = "", "aborted"
        self._attempts += 1
        try:
            yield prepared
            taken, event = self.row.id, "resumed"
        except (CheckpointerFailed, capture_failures.BeganLate) as failure:
            if capture_failures.repeats(failure, self._attempts):
                event = "again"
            raise
        finally:
            with held():
                pause.end()
                wake(event, taken)

    def _capture(
        self, prepared: _Prepared, settle: Callable[[CaptureResult], None] | None = None
    ) -> CaptureResult:
        twins, self._twins = self._twins, False  # root in the session can end them: only the first time
        before = self.context.store.find_snapshot(self.row.parent_snapshot_id)
        last = before.created_at if before is not None else None
        is_tracked = twins and not self._ends_session and earlier_memory.is_wanted(last)
        # Only of large heaps, which twins have or which were built on, is anything noted.
        has_heaps = before is not None and (
            before.details.get("copied_later") or before.details.get("unwritten")
        )
        base = self.row.parent_snapshot_id if is_tracked and has_heaps else None
        with earlier_memory.held(self.context.home.snapshots, base) as earlier:
            tracking = {"snapshot": self.row.id, "since": earlier.snapshot} if is_tracked else {}
            captured = self._capture_after(tracking, prepared, settle, twins=twins)
            self._linked = earlier.linked(self._staging)
            return captured

    def _capture_after(
        self,
        tracking: Mapping[str, str],
        prepared: _Prepared,
        settle: Callable[[CaptureResult], None] | None,
        *,
        twins: bool,
    ) -> CaptureResult:
        target = Target(self._container.id, self._container.pid, prepared.root_pid)
        has = f" with {self._processes} processes" if self._processes else ""
        self.context.doing(f"freezing {self.session.name}{has}, copying its memory and files")
        try:
            link = self._ask(
                "dump",
                folder=self._operation,
                leave_running=not self._ends_session,
                twins=twins,
                substitute=self._left_out,
                **tracking,
                **target.fields(),
            )
            commit = self._files.commit if self._files.by_engine else None
            with copied_amounts.shown(self.context, self.session.name, self._staging, self._memory):
                return freeze_protocol.run(
                    link, lambda: self._check_paused(prepared), commit, settle, self._note_killed
                )
        except LinkLost as error:
            raise CaptureFailed(
                f"cannot snapshot session {self.session.name}: the checkpointer ended during the capture",
                hint="the session continues; try again",
            ) from error

    def _note_killed(self, copies: int) -> None:
        self._copies_killed = copies

    def _check_paused(self, prepared: _Prepared) -> None:
        # Everything is frozen: what the guest reports now also holds in the copy.
        if not run_dir.holds(self._run_dir, layout.paused_name(prepared.token)):
            refusal = CaptureFailed(
                f"cannot snapshot session {self.session.name}: the capture did not begin in time",
                hint="the session continues; try again when the machine is less busy",
            )
            raise capture_failures.BeganLate(refusal)
        prepared.pause.captured()
        self._note_task()

    def _note_task(self) -> None:
        """Keep the present task record, while the session is stopped."""
        now = self.context.store.find_session(self.session.id)
        self._task = now.details.task if now is not None else None

    def _finish_live(self, captured: CaptureResult, prepared: _Prepared) -> SnapshotRow:
        with closing(files.Ahead(self._staging, raw_cache.IMAGES, self._linked)) as ahead:
            return self._finish_with(ahead, captured, prepared)

    def _finish_with(self, ahead: files.Ahead, captured: CaptureResult, prepared: _Prepared) -> SnapshotRow:
        processes = Processes(
            root_pid=prepared.root_pid,
            last_pid=captured.last_pid,
            token=prepared.token,
            addresses=list(self._container.addresses),
            memory_bytes=captured.unwritten
            + sum(path.stat().st_size for path in self._staging.glob("images/pages-*.img")),
            criu=str(prepared.versions["criu"]),
            kernel=str(prepared.versions["kernel"]),
            machine=str(prepared.versions["machine"]),
        )
        timing = prepared.moment.plus(
            frozen_seconds=round(captured.frozen_seconds, 4),
            capture_seconds=round(captured.seconds, 4),
            memory_bytes=processes.memory_bytes,
            copied_later=captured.copied_later,
            unwritten=captured.unwritten,
            files_by="engine" if self._files.by_engine else "copy",
        )
        if self._files.by_engine:
            self.context.progress(
                f"session {self.session.name} was frozen for {captured.frozen_seconds:.1f} s "
                "while the engine committed its files; `holdfast doctor` says why"
            )
        if captured.short_of_memory:
            self.context.progress(
                f"session {self.session.name} was frozen for {captured.frozen_seconds:.1f} s "
                f"because there is not enough memory to copy {captured.short_of_memory >> 20} MiB "
                "of heaps while it runs"
            )
        if self._force_drop:
            timing = timing.plus(dropped=list(self._force_drop))
        about = prepared.versions.get("about")
        make = (lambda: captured.image_id) if captured.image_id else self._files.keep
        return self._finish(make, processes, timing, about, ahead)

    def _finish(
        self,
        make: Callable[[], str],
        processes: Processes | None,
        timing: SnapshotDetails,
        about: Mapping[str, Any] | None = None,
        ahead: files.Ahead | None = None,
    ) -> SnapshotRow:
        """Add the image that `make` returns, digests, the manifest, and rename; then the snapshot exists."""
        store, home, session = self.context.store, self.context.home, self.session
        self.context.doing(f"storing the snapshot of {session.name}")
        try:
            if self._baseline is not None:
                baseline.write(self._staging, self._baseline)
                timing = timing.plus(base=self._baseline.base or "")
            tree, image = self._described(make, processes)
            later, engine = self._files.later, self.context.engine
            if ahead is not None and later is None:  # the rest of the snapshot takes about as long
                ahead.add(engine.layers.make_durable)
            elif ahead is not None:
                paths, names = unmade_image.not_on_disk(self._staging)
                ahead.add(partial(files.sync, paths), names)
            kept_image = engine.images.described(image) if later is None else None
            if tree is not None:
                held = self._baseline.held if self._baseline is not None else None
                layers = later or engine.layers.of_image(kept_image or {})
                taken.remember(session, self._staging, tree, layers, held)
            digests = ahead.digests() if ahead is not None else None
            entries = files.describe(self._staging, digests, besides=unmade_image.FOLDER)
            kept = Manifest(
                id=self.row.id,
                kind=self.row.kind,
                label=self.row.label,
                created_at=self.row.created_at,
                session=session.id,
                session_name=session.name,
                generation=session.generation,
                parent=self.row.parent_snapshot_id,
                image=image,
                options=session.options,
                processes=processes,
                files=entries,
                failure=of_row(self.row.details),
                needs=capture_record.requirements_of(self.context.engine, about, self._staging),
            )
            manifest.write(self._staging, kept)
            packing_request.mark(home)
            kept_as = storage.keep(self._staging, entries, ahead)
        except OSError as error:
            raise capture_failures.unwritable(session, home.root, error) from error
        size = None if kept_image is None else int(kept_image.get("Size") or 0)
        grown, layers_of_files = self._files.counted(size, lambda: engine.images.size(session.image))
        details = SnapshotDetails({**self.row.details, **timing}).plus(task=self._task)
        details = details.plus(storage=snapshot_storage.details(kept_as, grown, layers_of_files))
        self._is_stored = True
        if note := self._note.result() if self._note is not None else {}:
            details = details.plus(note=note)
        ready = {
            "state": "ready",
            "image_id": image,
            "bytes": grown + kept_as.files + kept_as.raw,
            "details": details,
        }
        try:
            storage.publish(None if ahead or later else engine, home, self._staging, self.row.id)
        except OSError as error:
            raise capture_failures.unwritable(session, home.root, error) from error
        if self._ends_session:
            # Not complete before the session's processes are gone; until then everything may be undone.
            return store.update_snapshot(self.row.id, **ready)
        if self._note is None:
            host_events.catch_up(self.context, session, timing)
        return complete(self.context, session, self._operation, self.row.id, ready)

    def _described(
        self, make: Callable[[], str], processes: Processes | None
    ) -> tuple[RecordedTree | None, str]:
        """Return the capture's processes and its image; the checkpointer and the engine work in parallel."""
        if processes is None:
            return None, make()
        target = Target(self._container.id, self._container.pid, processes.root_pid)
        still = target if self._ends_session else None
        with ThreadPoolExecutor(1, thread_name_prefix="image") as meanwhile:
            making = meanwhile.submit(make)
            tree = taken.tree(self.context, self.session, self._staging, still)
            return tree, making.result()

    def _refuse(self, refusal: CheckpointerFailed) -> NoReturn:
        names = preflight.names(self.context, self.session, self._container)
        raise capture_failures.of_capture(self.session, self.context.home.root, refusal, names) from refusal


def _asking() -> ThreadPoolExecutor:
    """Return a thread for the engine, whose end is waited for: an undo must come after what it has asked."""
    return ThreadPoolExecutor(1, thread_name_prefix="asking")


@contextmanager
def _beside() -> Iterator[ThreadPoolExecutor]:
    """Yield a thread for work in parallel with the checkpointer and the engine; it keeps the order.

    It only looks and copies. If the capture fails or is interrupted, its end is not waited for.
    """
    pool = ThreadPoolExecutor(1, thread_name_prefix="beside")
    whole = False
    try:
        yield pool
        whole = True
    finally:
        pool.shutdown(wait=whole, cancel_futures=True)
