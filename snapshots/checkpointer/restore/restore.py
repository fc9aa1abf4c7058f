"""One restore: the tree of a snapshot comes to life inside a new container.

The order of it, CRIU and the process that serves memory on demand. `prepared_images` makes what CRIU reads.
"""

from __future__ import annotations

import ctypes
import os
import platform
import select
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from holdfast.snapshots.checkpointer.carried import (
    event_queues,
    personalities,
    remembered,
    wall_timers,
)
from holdfast.snapshots.checkpointer.container import container_turn
from holdfast.snapshots.checkpointer.criu import criu, profiles, standstill
from holdfast.snapshots.checkpointer.criu.criu_images import ImageFolder
from holdfast.snapshots.checkpointer.criu.held_packets import Holding, PacketKind
from holdfast.snapshots.checkpointer.ground import cgroups, folders, separate_process, tree
from holdfast.snapshots.checkpointer.layers import tmpfs
from holdfast.snapshots.checkpointer.record import labels
from holdfast.snapshots.checkpointer.restore import prepared_images
from holdfast.snapshots.checkpointer.restore.audit import Audit
from holdfast.snapshots.checkpointer.restore.flat_memory import WaitingPages
from holdfast.snapshots.checkpointer.restore.restore_lifeline import Lifeline
from holdfast.snapshots.checkpointer.survey import unix_sockets
from holdfast.snapshots.checkpointer.wire.channel import HostChannel
from holdfast.snapshots.checkpointer.wire.requests import Restore

# A restore reads memory once from disk; one that takes longer hangs. Seconds.
RESTORE_LIMIT = 300.0
STAND_INS = 100
"""Processes that CRIU can add to a tree; it takes the first free ids above all others for them."""
MOMENT = 200
"""Milliseconds after a restore before memory that is not waited for is loaded: the session answers sooner."""
_KEYCTL_JOIN_SESSION_KEYRING = 1
_SYS_KEYCTL = {"x86_64": 250, "aarch64": 219}


class CriuRestoreFailed(Exception):
    """CRIU could not bring the tree back; `errors` are its own lines."""

    def __init__(self, message: str, errors: list[str]) -> None:
        super().__init__(message)
        self.errors = errors


def run(request: Restore, channel: HostChannel) -> None:
    """Carry out one restore. Raises RestoreFailed, TargetMismatch, OSError; the snapshot is unchanged."""
    target = request.target
    audit = Audit(target, channel)
    kept = folders.snapshot(request.folder)
    facts = prepared_images.read_facts(kept)
    images = folders.create_scratch(request.scratch)
    wishes = ExitStack()
    lazy: criu.Running | None = None
    try:
        prepared = prepared_images.prepare(
            kept, images, old=request.old_addresses, new=request.new_addresses, lazy=request.lazy
        )
        waiting = prepared_images.WaitingHeaps([], WaitingPages())
        if prepared.lazy:
            waiting = prepared_images.leave_heaps(kept, images)
            wishes.callback(waiting.pages.close)
        wish = -1
        if waiting.processes:
            wish = wishes.enter_context(container_turn.asked_to_load(target.container))
        with audit.frozen():
            tmpfs.load(target.init_pid, kept, facts["tmpfs"])
            # Links in there also lead: what is examined must be all that CRIU will find.
            source = audit.images(images, unix_sockets.noted_paths(facts["sockets"]))
            prepared_images.forget_login_ids(images, source)
            prepared_images.rename_removed_folders(Path(f"/proc/{target.init_pid}/root"), images)
            adopted = prepared_images.adopt(images, source)
            labelled = profiles.give(images, labels.apparmor_of(target.init_pid))
            files = remembered.read_numbers(kept)
            named = prepared_images.name_sockets(images, facts["sockets"]) if facts["sockets"] else {}
        # What is restored inherits these from CRIU, and CRIU from this process.
        cgroups.join(target.init_pid)
        _new_session_keyring()
        # CRIU gives a process the groups it had, but only if it had any.
        os.setgroups([])
        _set_last_pid(target.init_pid, _beyond(max(request.last_pid, prepared.highest)))
        folder = folders.use_scratch(images)
        started = time.monotonic()
        if prepared.lazy:
            line = Lifeline(target.init_pid)
            lazy = _start_lazy_pages(
                folder, wish, waiting, init_pid=target.init_pid, soon=not request.on_touch
            )
        queues = tuple(event_queues.holders(source, prepared.queues))
        search = partial(remembered.places, ImageFolder(kept), files)
        begin = Beginning(queues, search, facts["personalities"], facts["timers"])
        _restore(request, folder, prepared, audit, {**labelled, **adopted, **named}, begin)
        ended = time.monotonic()
        channel.send(
            "done",
            seconds=ended - started,
            connections_closed=prepared.sockets.closed,
            sockets_moved=prepared.sockets.moved,
            lazy=lazy is not None,
        )
        if lazy is not None:
            # The pages not yet in memory come from that process: it must outlive the conversation.
            status = line.wait(lazy.process)
            if status != 0:
                line.end()
            line.let_go()
            lazy.close()
            channel.send("drained", status=status)
    except BaseException as error:
        if lazy is not None:
            lazy.process.kill()
            if isinstance(error, CriuRestoreFailed):  # what it says first is often why the other one failed
                error.errors[:0] = lazy.errors(folder, "lazy.log")
            lazy.close()
        raise
    finally:
        wishes.close()
        audit.close()
        folders.discard_scratch(request.scratch)


@dataclass(frozen=True, slots=True)
class Beginning:
    """The state a restored tree needs before it runs.

    That is the first contents of its event queues, the numbers of its files where it remembers others, its
    personalities, and timers for a time of day. `search` finds the places of the numbers; it takes a while.
    """

    queues: Sequence[event_queues.Holder]
    search: Callable[[], Sequence[remembered.NumberPlaces]]
    personalities: Mapping[int, int]
    timers: Sequence[wall_timers.WallTimer]

    def give(self, pids: Sequence[int], places: Sequence[remembered.NumberPlaces]) -> None:
        """Apply the whole state to the tree.

        Raises:
            OSError: the kernel refuses.
        """
        personalities.check(pids, self.personalities)
        event_queues.begin(pids, self.queues)
        wall_timers.begin(pids, self.timers)
        remembered.renew(pids, places)


def _restore(
    request: Restore,
    folder: int,
    prepared: prepared_images.Prepared,
    audit: Audit,
    labelled: dict[str, str],
    begin: Beginning,
) -> None:
    arguments = [
        "restore",
        "--restore-detached",
        *criu.COMMON,
        "--file-validation=filesize",
        "--log-file=restore.log",
        "--action-script=ask",
        *(["--lazy-pages"] if prepared.lazy else []),
    ]
    init_pid = request.target.init_pid
    holding = Holding(init_pid) if prepared.by_packets else nullcontext()
    with personalities.guard_input(begin.personalities) as descriptor, holding as packets:
        running = criu.start(
            arguments,
            init_pid=init_pid,
            images=folder,
            work=folder,
            also_inherit=(descriptor,),
            check=lambda: tree.check_container(init_pid, request.target.container),
            restores=request.target.root_pid,
            environment={
                "HOLDFAST_TERMINALS": prepared.terminals,
                "HOLDFAST_PERSONALITIES": str(descriptor),
                **labelled,
            },
        )
        status: int | None = -1
        try:
            status = _drive(running, audit, packets, begin)
        finally:
            running.control.close()
            # Reached with a live CRIU only if it hangs or its tree was killed: that has taken it along.
            running.process.kill()
            running.process.wait()
            errors = running.errors(folder, "restore.log") if status != 0 else []
            if status is None:
                errors.append(f"restore: not done after {RESTORE_LIMIT:g} s")
            running.close()
            if status != 0:
                audit.end()
    if status is None:
        raise CriuRestoreFailed("CRIU did not finish in time and was killed", errors)
    if status != 0:
        raise CriuRestoreFailed(f"CRIU ended with status {status}", errors)


def _drive(running: criu.Running, audit: Audit, packets: Holding | None, begin: Beginning) -> int | None:
    """Follow CRIU to its end and return its status; None if it is not done within `RESTORE_LIMIT`.

    Its question before anything runs is for the audit; others are answered with yes.

    When the audit has passed, the tree gets what it needs. `packets` holds the packets of connections back.
    Once CRIU can detach from the tasks, it has nothing else to do, and the first ones can stop or kill it
    before it comes to the last: it is ended then, for the kernel releases the rest.
    """
    process = running.process
    deadline = time.monotonic() + RESTORE_LIMIT
    places = begin.search()  # while CRIU makes processes and fills their memory
    let_go = False
    while time.monotonic() < deadline:
        if not select.select([running.control], [], [], standstill.POLL)[0]:
            if let_go and standstill.is_stopped(process):
                process.kill()
            if process.poll() is not None:
                break
            continue
        action = running.question()
        if not action:
            break
        if action == "pre-resume":
            begin.give(audit.stopped(process.pid), places)
        if packets is not None:
            _hold_or_let_go(packets, action)
        try:
            running.answer(yes=True)
        except criu.Killed:
            if not let_go:
                raise
        let_go = let_go or action == "pre-resume"
    else:
        return None
    status = process.wait()
    return max(status, 0) if let_go else status


def _hold_or_let_go(packets: Holding, action: str) -> None:
    match action:
        case "pre-restore":  # what CRIU tries connections for is done
            packets.hold(PacketKind.RESETS)
            packets.hold(PacketKind.EARLY)
        case "post-restore":  # all queues are filled; next, repair mode ends and each connection sends
            packets.let_go(PacketKind.EARLY)
        case "pre-resume":
            packets.let_go(PacketKind.RESETS)


def _start_lazy_pages(
    folder: int, wish: int, waiting: prepared_images.WaitingHeaps, *, init_pid: int, soon: bool
) -> criu.Running:
    """Start the process that serves pages on demand, and wait until it listens.

    It loads the memory of the `waiting` processes, if there are any, when they touch it, and the rest once
    `wish` can be read; with `soon` after a moment in any case.

    It stays in the checkpointer's namespaces: it reads only images, and gets the userfaultfds of
    the restored tasks over a socket in the scratch folder. --status-fd gets a byte when it is ready.
    """
    ready, signal = os.pipe()
    # What a process hides from its children is read there.
    processes = os.open(f"/proc/{init_pid}/root/proc", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        arguments = [
            "lazy-pages",
            f"--status-fd={signal}",
            "--no-default-config",
            "--log-file=lazy.log",
            "-v2",
        ]
        inherited, environment = [signal, processes], {"HOLDFAST_PROCESSES": str(processes)}
        if waiting.processes:
            pids = " ".join(map(str, waiting.processes))
            environment |= {"HOLDFAST_LOAD": str(wish), "HOLDFAST_WAITING": pids, **waiting.pages.environment}
            inherited += [wish, *waiting.pages.handles]
            environment |= {"HOLDFAST_LOAD_AFTER": str(MOMENT)} if soon else {}
        running = criu.start(
            arguments,
            init_pid=None,
            images=folder,
            work=folder,
            also_inherit=inherited,
            environment=environment,
        )
        os.close(signal)
        signal = -1
        if os.read(ready, 1) == b"":
            running.process.wait()
            raise CriuRestoreFailed(
                "CRIU could not serve memory on demand", running.errors(folder, "lazy.log")
            )
        return running
    finally:
        os.close(ready)
        os.close(processes)
        if signal >= 0:
            os.close(signal)


def _beyond(highest: int) -> int:
    """Return the first of CRIU's own pids: not right after the highest, where it makes stand-ins for ended
    leaders.
    """
    most = int(Path("/proc/sys/kernel/pid_max").read_text())
    return highest + STAND_INS if highest + 2 * STAND_INS < most else highest


def _set_last_pid(init_pid: int, last_pid: int) -> None:
    """Continue the new container's PID allocator after `last_pid` (pid_namespaces(7), ns_last_pid).

    The file acts on the PID namespace of the writer, hence the child.
    """
    with separate_process.children_in(init_pid):
        child = os.fork()
        if child == 0:
            try:
                Path("/proc/sys/kernel/ns_last_pid").write_text(str(last_pid))
                os._exit(0)
            except OSError:
                os._exit(1)
        _, status = os.waitpid(child, 0)
    if status != 0:
        raise CriuRestoreFailed("the PID allocator of the new container cannot be set", [])


def _new_session_keyring() -> None:
    """Give up the keyring this process inherited, so that no session gets it (keyctl(2))."""
    number = _SYS_KEYCTL.get(platform.machine())
    if number is not None:
        ctypes.CDLL(None).syscall(number, _KEYCTL_JOIN_SESSION_KEYRING, None)
