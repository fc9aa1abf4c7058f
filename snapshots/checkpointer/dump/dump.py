"""One capture: stop every task, let the host keep the files, write the memory, release the tasks.

The order is what makes memory, files and tmpfs one instant:

  the files are copied beforehand (layers), if possible
  the container is frozen, and all of its tasks are seized at once (standstill.py, guard_seize.c)
  all tasks have stopped ─► "frozen" to the host, which commits the files if they could not be copied
  CRIU writes memory      tmpfs is archived here, and files that changed are copied again
  large heaps get twins   (twins.py)
  CRIU holds (post-dump) ─► "dumped" to the host, which answers "go" once the files are kept
  CRIU releases           the session runs, and the heaps are copied from the twins
                       ─► "done"

If the host goes away or answers anything but "go", CRIU is made to fail, and resumes every task.
"""

from __future__ import annotations

import json
import os
import select
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from holdfast.snapshots.checkpointer.carried import event_queues, personalities, remembered, wall_timers
from holdfast.snapshots.checkpointer.container import first_process
from holdfast.snapshots.checkpointer.criu import criu, criu_images, earlier_images, standstill
from holdfast.snapshots.checkpointer.criu.held_packets import Holding, PacketKind
from holdfast.snapshots.checkpointer.dump import drain_closed_sockets, repair, twins, write_tracking
from holdfast.snapshots.checkpointer.ground import folders, tree
from holdfast.snapshots.checkpointer.ground.freezer import Freezer, NotFrozen
from holdfast.snapshots.checkpointer.ground.separate_process import Process
from holdfast.snapshots.checkpointer.layers import keep, scan, tmpfs
from holdfast.snapshots.checkpointer.layers.copy import LayerCopy
from holdfast.snapshots.checkpointer.record import page_ranges
from holdfast.snapshots.checkpointer.survey import unix_sockets
from holdfast.snapshots.checkpointer.wire.channel import HostChannel
from holdfast.snapshots.checkpointer.wire.deadline import Deadline, Passed
from holdfast.snapshots.checkpointer.wire.requests import CaptureTarget, Dump

# A host that holds a session frozen for longer than this has lost its way. Seconds.
HOLD_LIMIT = 120.0
# A capture that takes longer hangs: 64 GiB at a tenth of a gigabyte a second. Seconds.
DUMP_LIMIT = 900.0
# For all tasks to stop: nothing has been changed in them until then. CRIU has a limit of 10 s of its own.
STOP_LIMIT = 30.0
# For a killed process to be gone: it takes milliseconds. Seconds.
END_LIMIT = 5.0
POLL = 0.002
_REFUSED = {
    "queue-lost": "unread terminal output could not be kept (is the disk full?)",
    "twins-failed": "the copy of a process could not be made",
}
"""The guard's question when a capture cannot continue, and the reason."""


class DumpFailed(Exception):
    """CRIU could not capture the tree; `errors` are its own lines."""

    def __init__(self, message: str, errors: list[str]) -> None:
        super().__init__(message)
        self.errors = errors


@dataclass(slots=True)
class _Capture:
    request: Dump
    channel: HostChannel
    root: int
    images: Path
    freezer: Freezer
    watch: tree.FreezeWatch
    layer: LayerCopy | None
    packets: Holding
    watchers: event_queues.Watchers
    twins: twins.Twins
    frozen_at: float = 0.0
    released_at: float = 0.0
    has_heaps: bool = False
    stopped: bool = False
    agreed: bool = False
    tmpfs: list[str] = field(default_factory=list)
    last_pid: int = 0
    personalities: dict[str, int] = field(default_factory=dict)
    sockets: dict[str, list[str]] = field(default_factory=dict)
    timers: list[wall_timers.WallTimer] = field(default_factory=list)
    deadline: Deadline = field(init=False)

    def check_alone(self) -> None:
        standstill.check_alone(self.freezer, self.request.target.init_pid, self.root)

    def check_frozen(self) -> None:
        """Check the preconditions of a capture, and determine what is known only once the container is
        frozen.
        """
        self.check_alone()
        self.watchers.note()
        self.twins.choose()

    def note_stopped(self) -> None:
        self.stopped = True
        self.deadline = Deadline(self.request.limit)
        pids = tree.tree(self.root)
        self.last_pid = tree.highest_inner_pid(pids)
        self.channel.send("frozen")
        self.personalities = personalities.of(pids)
        self.timers = wall_timers.note(pids)
        remembered.note_numbers(self.request.target.init_pid, pids, self.images)
        self.keep_tmpfs()
        self.copy_layer()

    def copy_layer(self) -> None:
        if self.layer is not None:
            keep.complete(self.layer, self.request.target.init_pid, self.deadline)

    def save_layer(self) -> None:
        if self.layer is not None:
            self.layer.save()
            folders.give_to_owner(self.images.parent)

    def check_files(self, entries: list[Any]) -> None:
        """Before a session ends, check that the copy has all files that its images name."""
        init_pid = self.request.target.init_pid
        found = scan.layers_of(init_pid) if self.layer is not None else None
        if self.request.leave_running and found is not None:
            return
        keep.check_copied(
            Path(f"/proc/{init_pid}/root"),
            found.upper if found is not None else None,
            entries,
            criu_images.read(self.images / "remap-fpath.img")[1],
            self.layer.has if self.layer is not None else lambda _: False,
        )

    def let_go(self) -> None:
        """Release the session. Raises OSError; the session continues anyway."""
        try:
            self.packets.close()
            if self.agreed and self.request.leave_running:  # held, although CRIU was allowed to detach
                self.watchers.forget()
        finally:
            self.freezer.thaw()

    def copy_heaps(self) -> None:
        """CRIU has ended its work, and only holds the twins."""
        if self.agreed:
            self.let_go()
            self.released_at = time.monotonic()
            try:
                self.twins.copy(self.images)
            finally:
                if killed := self.twins.killed_for_memory():
                    self.channel.send("twins_killed", count=killed)
            self.has_heaps = True

    def link_earlier(self) -> None:
        """Add all data that the images refer to. Raises OSError, ImagesUnreadable."""
        if based := self.twins.based:
            earlier_images.link(self.images, folders.snapshot(self.request.since), based)
            folders.give_to_owner(self.images)

    def leave_tracked(self) -> None:
        """Pass the writes noted since this complete capture on to the next one."""
        with suppress(OSError):  # then it reads everything
            write_tracking.leave(self.request.target.container, self.request.snapshot, self.twins.tracked())

    def keep_tmpfs(self) -> None:
        self.tmpfs = tmpfs.save(self.request.target.init_pid, self.images, self.deadline)


def run(request: Dump, channel: HostChannel) -> None:
    """Carry out one capture. Raises DumpFailed, TargetMismatch, OSError; the tree continues in each case."""
    target = request.target
    tree.check_container(target.init_pid, target.container)
    first_process.check(target.init_pid)
    root = tree.find_by_inner_pid(target.init_pid, target.root_pid)
    freezer = Freezer(target.init_pid)
    drain_closed_sockets.deliver(root)
    layer = keep.begun(target.init_pid, request.folder)
    images = folders.create_staging(request.folder)
    folder = folders.open_folder(images)
    arguments = [
        "dump",
        f"--tree={target.root_pid}",
        *criu.COMMON,
        # Packets from outside are handled by the parent's live socket, which runs on.
        "--network-lock=skip",
        "--link-remap",
        f"--ghost-limit={256 * 1024 * 1024}",
        # As a restore does. Otherwise CRIU opens every file for its build id, and waits for leases on them.
        "--file-validation=filesize",
        "--log-file=dump.log",
        "--action-script=hold",
        *(["--leave-running"] if request.leave_running else []),
    ]
    started = time.monotonic()
    environment = {
        "HOLDFAST_SUBSTITUTE": " ".join(f"{item.pid}:{item.fd}" for item in request.substitute),
        **({} if request.leave_running else {"HOLDFAST_ENDS": "1"}),
    }

    def start(more: Mapping[str, str], handles: tuple[int, ...]) -> criu.Running:
        return criu.start(
            arguments,
            init_pid=target.init_pid,
            images=folder,
            work=folder,
            also_inherit=(*handles, *watched.handles, *heaps.handles),
            check=lambda: tree.check_container(target.init_pid, target.container),
            environment={**environment, **watched.environment, **heaps.environment, **more},
        )

    running: criu.Running | None = None
    whole = False
    packets = Holding(target.init_pid)
    watched = event_queues.Watchers(target.init_pid, root)
    heaps = _begun_twins(request)
    capture = _Capture(
        request, channel, root, images, freezer, tree.FreezeWatch(root), layer, packets, watched, heaps
    )
    try:
        heaps.look(root)
        running, capture.frozen_at = standstill.begin(
            capture.freezer,
            start,
            capture.check_frozen,
            partial(standstill.look_for_unaccepted, target.init_pid),
        )
        _drive(capture, running)
        status = _reap(running.process)
        if request.leave_running:
            capture.let_go()
        ended = time.monotonic()
        capture.released_at = capture.released_at or ended
        # Ending the tree ends the container's first process, and with it its PID namespace, including CRIU.
        # One that was killed otherwise has let all of them go.
        ended_with_tree = capture.agreed and not request.leave_running and _is_over(target, root)
        # One that has only held twins, which are copied, has done its work.
        is_done = ended_with_tree or capture.has_heaps
        if status < 0 and not is_done:
            raise criu.Killed(-status)
        if status != 0 and not is_done:
            raise DumpFailed(f"CRIU ended with status {status}", running.errors(folder, "dump.log"))
        capture.link_earlier()
        capture.leave_tracked()
        whole = True
    except (standstill.Outsiders, NotFrozen, twins.TwinLost, twins.NoRoom) as error:
        raise DumpFailed(str(error), [str(error)]) from error
    finally:
        try:
            if running is not None:
                running.control.close()
                if _reap(running.process) < 0:
                    repair.mend(target.init_pid)
                running.close()
        finally:
            with suppress(OSError):  # the container may be gone
                capture.let_go()
            watched.close()
            heaps.close()
            os.close(folder)
        # What has ended is only in its images.
        if not whole and not (capture.agreed and not request.leave_running):
            folders.discard_staging(request.folder, folders.PROCESS_IMAGES)
    if request.leave_running:
        capture.save_layer()
    channel.send(
        "done",
        seconds=ended - started,
        frozen_seconds=capture.released_at - capture.frozen_at,
        copied_later=heaps.copied,
        short_of_memory=heaps.short_of_memory,
        unwritten=sum(map(page_ranges.size, heaps.based.values())),
        last_pid=capture.last_pid,
    )


def _drive(capture: _Capture, running: criu.Running) -> None:
    """Follow CRIU until it has ended or can continue. The session cannot hold it up."""
    process, control = running.process, running.control
    began = time.monotonic()
    while process.poll() is None:
        if time.monotonic() - began > (DUMP_LIMIT if capture.stopped else STOP_LIMIT):
            if not capture.stopped:
                process.kill()
                raise NotFrozen("a process does not stop")
            # Not killed, which could leave its code in tasks: when it fails, it releases all of them.
            raise Passed(f"writing its memory took longer than {DUMP_LIMIT:g} s")
        # A task that is traced looks the same before it was seized: not as long as the container is frozen.
        if not capture.stopped and not capture.freezer.is_frozen() and capture.watch.all_stopped():
            capture.note_stopped()
        if not select.select([control], [], [], POLL)[0]:
            # When it lets go of tasks because it failed, the first ones may stop it before it has come to the
            # last.
            standstill.keep_going(process)
            continue
        action = running.question()
        if not action:
            return
        if action == "connections":
            capture.packets.hold(PacketKind.CONNECTIONS)
        if action == "twins":
            capture.copy_heaps()
        if action in _REFUSED:
            running.answer(yes=False)
            raise DumpFailed(_REFUSED[action], [_REFUSED[action]])
        running.answer(yes=action != "post-dump" or _host_agrees(capture, process.pid))


def _begun_twins(request: Dump) -> twins.Twins:
    tracked = write_tracking.taken(request.target.container, request.since)
    if tracked and not earlier_images.may_build_on(folders.snapshot(request.since)):
        for memory in tracked.values():
            memory.close()
        tracked = {}
    return twins.Twins(
        request.target.init_pid,
        wanted=request.leave_running and request.twins,
        tracking=bool(request.snapshot),
        tracked=tracked,
    )


def _host_agrees(capture: _Capture, criu_pid: int) -> bool:
    if not capture.stopped:
        capture.note_stopped()
    # A file that was unlinked while open is linked back into the session's files during the dump;
    # files the host kept before that moment lack it.
    changed = (capture.images / "remap-fpath.img").exists()
    if changed:
        capture.keep_tmpfs()
        capture.copy_layer()
    if not capture.request.leave_running:
        capture.save_layer()
    entries = criu_images.read(capture.images / "files.img")[1]
    lonely = unix_sockets.without_peer(entries)
    if lonely:
        raise DumpFailed(
            "a connection has only one of its ends in the images", [f"Dangling connection {lonely}"]
        )
    capture.check_files(entries)
    if capture.layer is not None:
        capture.sockets = unix_sockets.note_names(
            capture.request.target.init_pid, entries, capture.layer.sockets()
        )
    check = partial(capture.deadline.check, "copying its memory")
    capture.twins.take(capture.root, criu_pid, capture.images, check)
    capture.check_alone()
    _keep_facts(capture)
    capture.channel.send("dumped", files_changed=changed, last_pid=capture.last_pid)
    capture.agreed = capture.channel.ready(HOLD_LIMIT) and capture.channel.receive(64) == b"go"
    if capture.agreed and capture.request.leave_running:
        # CRIU lets go of one task after the other; none of them runs before it is done. Those that end do so
        # now.
        capture.freezer.hold()
    elif capture.agreed:
        first_process.ends_with_tree(capture.request.target.init_pid, ends=True)
    return capture.agreed


def _keep_facts(capture: _Capture) -> None:
    facts = {
        "tmpfs": capture.tmpfs,
        "last_pid": capture.last_pid,
        "personalities": capture.personalities,
        **({"sockets": capture.sockets} if capture.sockets else {}),
        **({"timers": capture.timers} if capture.timers else {}),
    }
    (capture.images / "facts.json").write_text(json.dumps(facts))
    folders.give_to_owner(capture.images.parent)


def _is_over(target: CaptureTarget, root: int) -> bool:
    """Check whether a tree that is to end does so. If not, the first process returns to its former state."""
    deadline = time.monotonic() + END_LIMIT
    while not tree.has_ended(root):
        if time.monotonic() > deadline:
            first_process.ends_with_tree(target.init_pid, ends=False)
            return False
        time.sleep(POLL)
    return True


def _reap(process: Process) -> int:
    # Reached with a live CRIU only when this process failed: closing the control socket made its
    # script fail, so it resumes the tasks and ends. Killing it could leave its code inside them.
    deadline = time.monotonic() + HOLD_LIMIT
    while process.poll() is None:
        standstill.keep_going(process)
        if time.monotonic() > deadline:
            process.kill()
            return process.wait()
        time.sleep(POLL)
    return process.wait()
