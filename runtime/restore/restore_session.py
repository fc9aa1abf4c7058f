"""The steps of a restore: into new sessions, or into the suspended session a snapshot was taken of.

The files are checked while the containers are created; nothing of a snapshot is used before its digests
match. A container of a live snapshot starts with only its first process, which waits for the tree.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from holdfast.base import ids
from holdfast.base.interrupts import held
from holdfast.base.quantities import size_text
from holdfast.base.text import size
from holdfast.base.value_classes import dataclass
from holdfast.engine import networks
from holdfast.errors import InvalidArgument, RestoreFailed, SnapshotDamaged, StoreError
from holdfast.runtime.egress import network_changes
from holdfast.runtime.egress.close_network import Closing
from holdfast.runtime.lifecycle import provision
from holdfast.runtime.operations import step
from holdfast.runtime.restore.compat import command_history, snapshot_ladder
from holdfast.runtime.sessions import identity_messages, init_program
from holdfast.runtime.sessions.session_options import SessionOptions
from holdfast.runtime.storage import snapshot_image, verify_storage
from holdfast.runtime.verification import kernel_check, verification_result
from holdfast.runtime.verification.gate import Gate
from holdfast.snapshots import explain, raw, raw_cache, service
from holdfast.snapshots import manifest as manifests
from holdfast.snapshots.fitness import Name
from holdfast.snapshots.link import CheckpointerFailed, LinkLost, Target
from holdfast.snapshots.manifest import Manifest, Processes
from holdfast.snapshots.verification import Verification

if TYPE_CHECKING:
    from holdfast.engine.container_state import ContainerState
    from holdfast.runtime.operations.context import Context
    from holdfast.runtime.store.rows import OperationRow, SessionRow, SnapshotRow
    from holdfast.runtime.store.store import Store

# Bytes below which loading the memory at once takes no longer than setting up to load it on demand.
LAZY_FROM = 64 << 20
# Concurrent restores. Each is bound by one processor for a while; more would only wait for each other.
AT_ONCE = 4
CRIU_TASKS = 32
"""Processes and threads that a restore has in the session's control group besides the session's."""
# Threads of the check of the files. With all processors, it held up the start of the container for longer.
CHECKING = max(1, (os.cpu_count() or 1) - 1)

_TASK = re.compile(r"\bcore-\d+\.img$")


@dataclass(frozen=True, slots=True)
class ArrivedSession:
    """A restored session.

    `row` is as it was before until the restore is complete. `hooks` are the failures of hooks, `found` is the
    comparison with the freeze, if it has its processes.
    """

    row: SessionRow
    container: str
    hooks: list[str]
    found: Verification | None

    def keep(self, store: Store) -> None:
        """Store all the values in the details of the session. Raises StoreError."""
        store.keep_details(self.row.id, hooks=self.hooks)
        if self.found is not None:
            store.keep_details(self.row.id, verification=verification_result.stored(self.found))

    def note(self, context: Context) -> None:
        """Record the comparison in the session's journal."""
        if self.found is not None:
            verification_result.note(context, self.row, self.found)

    def report(self, context: Context) -> None:
        """Report the deviations."""
        if self.found is not None:
            verification_result.report(context, self.row, self.found)


class Restoring:
    """The restore of a snapshot into one or more sessions."""

    def __init__(
        self,
        context: Context,
        snapshot: SnapshotRow,
        place: provision.TemporaryPlace = provision.HERE,
        rung: Name | None = None,
        *,
        on_touch: bool = False,
    ) -> None:
        """Prepare. `on_touch`: large memory is loaded when it is touched, not in the background."""
        self.context = context
        self.snapshot = snapshot
        self._place = place
        self._on_touch = on_touch
        self._folder = context.home.snapshots / snapshot.id
        verify_storage.refuse(snapshot)
        try:
            manifest = manifests.read(self._folder)
            if manifest.id != snapshot.id:
                raise SnapshotDamaged(
                    f"cannot use snapshot {snapshot.name}: its manifest belongs to {manifest.id}"
                )
            self._chosen = snapshot_ladder.choose_parts(context, snapshot, manifest, rung)
            self.manifest: Manifest = self._chosen.manifest
            self._check_image()
        except SnapshotDamaged as error:
            self._mark_damaged(error)
            raise
        self._network = Closing(context.engine, context.home, context.progress)
        self._gate = Gate(snapshot.name, self._folder)
        self._bridge: str | None = None

    @property
    def rung(self) -> Name:
        """The part of the snapshot that is restored."""
        return self._chosen.rung

    def options(
        self,
        network: str | None = None,
        allow: Sequence[str] = (),
        deny: Sequence[str] = (),
        limits: Mapping[str, Any] = MappingProxyType({}),
    ) -> dict[str, Any]:
        """Return the options of the sessions to be made, with the chosen network options and limits.

        Raises:
            InvalidArgument: they are not valid.
        """
        chosen = self.manifest.options
        if network is not None or allow or deny:
            chosen = network_changes.changed(chosen, network=network, allow=allow, deny=deny)
            self._network.check_names(SessionOptions.parse(network=chosen["network"], allow=list(allow)))
        return self._limited(chosen, limits) if limits else chosen

    def _limited(self, chosen: Mapping[str, Any], limits: Mapping[str, Any]) -> dict[str, Any]:
        found = SessionOptions.parse(**{**chosen, **limits})
        held = self.manifest.processes.memory_bytes if self.manifest.processes else 0
        if found.memory <= held:
            raise InvalidArgument(
                f"cannot restore {self.snapshot.name} with a memory limit of {size_text(found.memory)}: "
                f"its programs hold {size_text(held)}",
                hint="choose a larger one",
            )
        return found.model_dump(mode="json")

    def bring_up(self, rows: Sequence[SessionRow], operation: OperationRow) -> list[ArrivedSession]:
        """Bring up sessions for all of these rows, in parallel, and return them with their new rows.

        Raises:
            SnapshotDamaged, RestoreFailed, EngineError, SessionError: the first failure.
        """
        arrived = self.containers(rows, operation)
        store = self.context.store
        made = {"state": "running", "parent_snapshot_id": self.snapshot.id, "image": self.manifest.image}
        with held(), store.together():
            for each in arrived:
                each.keep(store)
            store.operations.complete(
                operation.id,
                sessions={
                    each.row.id: {
                        **made,
                        "container_id": each.container,
                        "generation": each.row.generation,
                    }
                    for each in arrived
                },
            )
            return [replace(each, row=store.session(each.row.id)) for each in arrived]

    def containers(self, rows: Sequence[SessionRow], operation: OperationRow) -> list[ArrivedSession]:
        """Bring up a container that answers for each of these rows; raises as `bring_up` does."""
        options = SessionOptions.parse(**rows[0].options)
        if len(rows) > 1 and options.network != "none":
            self._bridge = networks.ensure(self.context.engine)
        with (
            raw_cache.held(self._folder),
            self._network.ahead(options),
            ThreadPoolExecutor(AT_ONCE + 1, thread_name_prefix="restore") as pool,
        ):
            verified = pool.submit(
                raw.prepare, self.context.home.root, self._folder, self.manifest, threads=CHECKING
            )
            pending = [pool.submit(step.with_watcher(self._one), row, operation.id, verified) for row in rows]
            try:
                for number, work in enumerate(pending, start=1):
                    work.result()
                    if number < len(pending):
                        self.context.doing(f"restoring {self.snapshot.name}", number, len(pending))
                arrived = [work.result() for work in pending]
                verified.result()
            except SnapshotDamaged as error:
                self._mark_damaged(error)
                raise
            finally:
                for work in pending:
                    work.cancel()
        return arrived

    def _one(self, row: SessionRow, operation: str, verified: Future[None]) -> ArrivedSession:
        home, engine = self.context.home, self.context.engine
        processes = self.manifest.processes
        folder = provision.prepare_run_dir(self.context, row, self._place)
        command = ["start"]
        if processes is not None:
            command = ["await", str(processes.root_pid)]
        most = int(row.options["pids"])
        roomy = self._roomy(most)
        started = replace(row, image=self.manifest.image, options={**row.options, "pids": roomy})
        init = init_program.obtain(engine, home, self.context.progress)
        self.context.doing(f"creating the container of {row.name}")
        container = provision.create_container(
            engine, home, started, operation, init, command, self.manifest, self._place, bridge=self._bridge
        )
        if processes is not None:
            became = replace(row, container_id=container)
            identity_messages.wake(folder, became, processes.token, "restored", self.snapshot.id)
        if self._chosen.script is not None:
            engine.files.write(
                container, command_history.PATH, self._chosen.script.encode("utf-8", "replace")
            )
        provision.start(engine, container)
        if self.manifest.has_apart:
            verified.result()
            self._make_apart(container)
        options = SessionOptions.parse(**row.options)
        closed = self._network.close(options, container)
        verified.result()
        found = None
        if processes is not None:
            memory = size(processes.memory_bytes)
            self.context.doing(f"restoring the processes of {row.name}, {memory} of memory")
            found = self._restore_tree(closed.state, processes)
            if roomy != most:
                engine.limit_processes(container, most)
        with ThreadPoolExecutor(1, thread_name_prefix="rules") as beside:
            # The restored tree already runs: its rules can be checked once more while it wakes up.
            looked = beside.submit(self._network.check, closed) if processes is not None else None
            greeting = provision.await_guest(engine, container, folder)
            if processes is not None and greeting.get("root_pid", greeting.get("pid")) != processes.root_pid:
                raise RestoreFailed(f"cannot restore {self.snapshot.name}: its supervisor ended immediately")
            hooks = identity_messages.report_hooks(self.context.progress, row.name, folder)
            if found is not None:
                since = self.snapshot.details.moment.journal_seq
                found = kernel_check.compare(folder, self._gate.record, since, found)
            if looked is not None:
                looked.result()
        return ArrivedSession(row, container, hooks, found)

    def _roomy(self, most: int) -> int:
        """Return the limit of processes while they are restored, where CRIU's own would exceed theirs."""
        tasks = sum(1 for file in self.manifest.files if _TASK.search(file.name))
        return most + CRIU_TASKS if tasks and tasks + CRIU_TASKS > most else most

    def _make_apart(self, container: str) -> None:
        """Make the files that the image cannot hold, before any program runs in the container."""
        state = self._running(container)
        fields = {"container": state.id, "init_pid": state.pid, "folder": self.snapshot.id}
        ask = partial(service.ask, self.context.engine, self.context.home, self.context.progress)
        try:
            with ask("apart", **fields) as link:
                link.until("done")
        except CheckpointerFailed as refusal:
            raise self._failed(refusal) from refusal
        except LinkLost as error:
            raise self._lost() from error

    def _running(self, container: str) -> ContainerState:
        state = self.context.engine.inspect(container)
        if state is None or not state.running:
            raise RestoreFailed(f"cannot restore {self.snapshot.name}: the new container ended immediately")
        return state

    def _lost(self) -> RestoreFailed:
        return RestoreFailed(
            f"cannot restore {self.snapshot.name}: the checkpointer ended during the restore",
            hint="try again",
        )

    def _restore_tree(self, state: ContainerState, processes: Processes) -> Verification:
        engine = self.context.engine
        target = Target(state.id, state.pid, processes.root_pid)
        try:
            with service.ask(
                engine,
                self.context.home,
                self.context.progress,
                "restore",
                folder=self.snapshot.id,
                scratch=ids.new_id(),
                lazy=processes.memory_bytes >= LAZY_FROM,
                on_touch=self._on_touch,
                last_pid=processes.last_pid,
                old_addresses=processes.addresses,
                new_addresses=list(state.addresses),
                **target.fields(),
            ) as link:
                return self._gate.follow(link)
        except CheckpointerFailed as refusal:
            raise self._failed(refusal) from refusal
        except LinkLost as error:
            raise self._lost() from error

    def _failed(self, refusal: CheckpointerFailed) -> RestoreFailed | StoreError:
        if refusal.kind != "criu":
            return RestoreFailed(f"cannot restore {self.snapshot.name}: {refusal}")
        reason = explain.explain(refusal.errors)
        if reason.no_space:
            return StoreError(
                f"cannot restore {self.snapshot.name}: no space left in {self.context.home.root}",
                hint="make room, then try again",
            )
        return RestoreFailed(
            f"cannot restore {self.snapshot.name}: {reason.text}",
            hint=f"{reason.advice}; the snapshot is unchanged",
        )

    def _check_image(self) -> None:
        ref = snapshot_image.obtain(self.context, self.snapshot)
        if self.context.engine.images.id(self.manifest.image) is None:
            raise SnapshotDamaged(
                f"cannot use snapshot {self.snapshot.name}: its image {ref} is gone",
                hint=f"it was removed from the engine; `holdfast rmi {self.snapshot.name}` removes the rest",
            )

    def _mark_damaged(self, error: SnapshotDamaged) -> None:
        why = str(error).partition(": ")[2]
        details = self.snapshot.details.plus(damage=why)
        self.context.store.update_snapshot(self.snapshot.id, state="damaged", details=details)
