"""Puts a restore before its judge: before CRIU runs, and when everything is restored but does not run yet.

The host judges (`snapshots/snapshot_policy.py`); this module reports what there is. A tree that the host
rejects is killed while every task of it is in a ptrace stop. CRIU itself would release it: it ignores the
result of its pre-resume script. No answer from the host means rejection.

`hindrances` tries on a capture what a restore does to its images before CRIU runs: the same code on the same
images; the rest only a kernel can decide.
"""

from __future__ import annotations

import json
import os
import select
import signal
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from itertools import chain
from pathlib import Path
from typing import Any

from holdfast.procfs import walk
from holdfast.snapshots.checkpointer.container import first_process
from holdfast.snapshots.checkpointer.criu import standstill
from holdfast.snapshots.checkpointer.criu.criu_images import ImageFolder
from holdfast.snapshots.checkpointer.ground import beneath, folders, tree
from holdfast.snapshots.checkpointer.ground.freezer import Freezer
from holdfast.snapshots.checkpointer.record import ancestry, image_paths
from holdfast.snapshots.checkpointer.record.decode import decode
from holdfast.snapshots.checkpointer.record.judged_limits import MAX_ANSWER, MAX_FILES
from holdfast.snapshots.checkpointer.record.kernel_record import look
from holdfast.snapshots.checkpointer.record.outside import strange
from holdfast.snapshots.checkpointer.restore import prepared_images
from holdfast.snapshots.checkpointer.wire.channel import HostChannel
from holdfast.snapshots.checkpointer.wire.requests import CaptureTarget, Describe

ANSWER_LIMIT = 300.0
"""Seconds a host may take to judge. It needs milliseconds, but reads the record of the freeze from a disk,
which may stall for minutes. Nothing of the tree runs meanwhile, and a host that ends hangs up."""
END_LIMIT = 30.0
POLL = 0.001
MAX_TOTAL = 8 << 20
"""Bytes of open files that are read for a restore."""


class NotWanted(Exception):
    """The host refused to let the tree run; it was removed."""


class Audit:
    """The judge of one restore. Closing it releases the container's first process."""

    def __init__(self, target: CaptureTarget, channel: HostChannel) -> None:
        self._target = target
        self._channel = channel
        self._killed = False
        # What has that number later is another process; this one can only be gone.
        self._init = os.pidfd_open(target.init_pid)
        self._freezer = Freezer(target.init_pid)
        try:
            tree.check_container(target.init_pid, target.container)
            self._check_alone()
        except BaseException:
            os.close(self._init)
            raise

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """Keep the container, where the first process is alone, still during the block."""
        self._freezer.freeze()
        try:
            self._check_alone()
            yield
        finally:
            self._freezer.thaw()
        self._check_alone()

    def _check_alone(self, *roots: int) -> None:
        """Raise NotWanted, TargetMismatch if there is more than our first process and these trees."""
        first_process.check(self._target.init_pid)
        try:
            standstill.check_alone(self._freezer, self._target.init_pid, *roots)
        except standstill.Outsiders as error:
            raise NotWanted(str(error)) from error

    def images(self, folder: Path, names: Iterable[str]) -> ImageFolder:
        """Ask whether these images can be restored; return the judged images. Raises NotWanted, Unreadable.

        `names` are made in addition to the images' own.
        """
        source = ImageFolder(folder)
        lost = image_paths.astray(
            Path(f"/proc/{self._target.init_pid}/root"), chain(image_paths.names(source), names)
        )
        if lost is not None:
            raise NotWanted(f"a link takes {lost[:300]!r} out of the session")
        self._channel.send("images", tree=decode(source, commands=False), strange=strange(source))
        answer = self._answer()
        self._files = self._digests(answer.get("files"))
        return source

    def stopped(self, criu: int) -> tuple[int, ...]:
        """Ask whether the tree CRIU (a pid) has restored can run, and kill it if not; return its pids.

        Raises NotWanted.
        """
        try:
            root = self._root(criu)
            # This process is also in the container's cgroups, and CRIU and the tree below it.
            self._check_alone(root, os.getpid())
            restored = walk.tree(root)
            if not restored.whole:
                raise NotWanted("it has more processes than can be checked")
            found = look(restored.pids, self._target.init_pid)
            self._channel.send("stopped", tree=found, files=self._files)
            self._answer()
            return restored.pids
        except BaseException:
            self._kill(criu)
            raise

    def end(self) -> None:
        """End the container with its contents: a failed restore leaves nothing that could run.

        CRIU must have ended, which takes along what it held.
        """
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._init, signal.SIGKILL)
        self._killed = True

    def _kill(self, criu: int) -> None:
        """Kill everything in the container. CRIU comes last, because tasks run when their tracer ends."""
        pids = [*walk.tree(criu).pids[1:], *walk.tree(self._target.init_pid).pids[1:]]
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        deadline = time.monotonic() + END_LIMIT
        while time.monotonic() < deadline and not all(map(tree.has_ended, pids)):
            time.sleep(POLL)
        # Its first process takes along whatever else there is (pid_namespaces(7)).
        self.end()

    def close(self) -> None:
        """Release the restore. Killed tasks have ended then; CRIU, of its namespace, must have been waited
        for."""
        if self._killed:
            select.select([self._init], [], [], END_LIMIT)
        os.close(self._init)

    def _root(self, criu: int) -> int:
        """Return the root: a child of CRIU until that ends, then of the container's first process."""
        for parent in (criu, self._target.init_pid):
            for child in walk.children(parent):
                status = walk.status_of(child)
                if status is not None and status.inner_pid == self._target.root_pid:
                    return child
        raise NotWanted("the restored tree cannot be found")

    def _answer(self) -> dict[str, Any]:
        line = self._channel.receive(MAX_ANSWER) if self._channel.ready(ANSWER_LIMIT) else None
        try:
            answer = json.loads(line or b"{}")
        except ValueError:
            answer = {}
        if not isinstance(answer, dict) or answer.get("go") is not True:
            raise NotWanted("the host rejected it")
        return answer

    def _digests(self, paths: Any) -> dict[str, list[Any]]:
        """Size and digest of files of the session, before its programs run or watch them."""
        found: dict[str, list[Any]] = {}
        room = MAX_TOTAL
        root = Path(f"/proc/{self._target.init_pid}/root")
        for path in paths[:MAX_FILES] if isinstance(paths, list) else []:
            try:
                size, data = beneath.digest(root, str(path), room)
            except OSError:
                found[str(path)] = [0, ""]
                continue
            room -= size
            found[str(path)] = [size, data]
        return found


def hindrances(request: Describe, source: ImageFolder) -> list[str]:
    """Return sentences without their subject, as `strange` does; none if a restore is possible.

    `source` are the images the request names; parts already read for their description are not read again.

    Raises:
        Unreadable: the images are not what a restore reads.
        TargetMismatch: the session is not the expected one.
        OSError: they cannot be read, or the scratch folder cannot be written.
    """
    if request.target is not None:
        tree.check_container(request.target.init_pid, request.target.container)
    kept = folders.staged(request.folder)
    prepared_images.read_facts(kept)
    scratch = folders.create_scratch(request.folder)
    try:
        prepared_images.prepare(kept, scratch, old=(), new=(), lazy=False)
    finally:
        folders.discard_scratch(request.folder)
    return list(_strange(source, request.target))


def _strange(source: ImageFolder, target: CaptureTarget | None) -> Iterator[str]:
    yield from strange(source)
    lost = ancestry.lost(prepared_images.relatives(source))
    if lost:
        yield f"has processes whose session cannot be recreated: {', '.join(map(str, sorted(lost)[:5]))}"
    if target is not None:
        root = Path(f"/proc/{target.init_pid}/root")
        astray = image_paths.astray(root, image_paths.names(source))
        if astray is not None:
            yield f"has open {astray[:300]!r}, which a link takes out of it"
        lost_file = image_paths.first_lost(root, image_paths.open_files(source))
        if lost_file is not None:
            yield f"has open {lost_file[:300]!r}, whose folder was replaced"
