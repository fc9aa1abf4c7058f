"""A survey of a session through the host's /proc. Thin: other modules judge it.

Nothing is stopped or traced. A process that ends in the meantime is left out. Costly facts are read only
where they matter: fdinfo of files and of watched descriptors, stat of whatever has a path.
"""

from __future__ import annotations

import errno
import os
import resource
import stat
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from itertools import islice
from pathlib import Path

from holdfast.procfs import bounded, memory_maps, mount_table, process_stat, socket_tables, walk
from holdfast.procfs.descriptor_links import DescriptorTarget
from holdfast.procfs.mount_table import MountedPart
from holdfast.procfs.process_status import ProcessStatus
from holdfast.snapshots.checkpointer.ground import diag, pidfd_files
from holdfast.snapshots.checkpointer.record import labels
from holdfast.snapshots.checkpointer.record.judged_limits import MAX_DESCRIPTORS
from holdfast.snapshots.checkpointer.survey import unix_sockets
from holdfast.snapshots.checkpointer.survey.seen import (
    ENGINE_FILES,
    FileState,
    Mapped,
    Network,
    SeenDescriptor,
    SeenProcess,
    SessionMounts,
    World,
)

ENGINE_FOLDERS = ("/proc/", "/sys/", "/dev/")
MAX_OUTSIDE = 100
MAX_TOTAL = 50_000
"""Maximum number of descriptors of all processes together."""
MAX_MAPPED = 500
MOST_PARENTS = 64
"""Between a process that began during a survey and one that it had listed."""
STUCK_LOOKS, STUCK_PAUSE = 10, 0.02
PATIENCE = 2.0
"""Seconds to search for uninterruptible tasks, in all processes together; after that none is reported."""
# File systems that may never answer.
_SLOW = frozenset({"fuse", "nfs", "nfs4", "cifs", "smb3", "9p", "ceph"})
_SYS_ADMIN = 1 << 21  # CAP_SYS_ADMIN, see capabilities(7)
# Their existence is all there is to know about these.
_PLAIN = frozenset({"eventfd", "signalfd", "timerfd"})
_KINDS = (
    (stat.S_ISREG, "file"),
    (stat.S_ISDIR, "folder"),
    (stat.S_ISCHR, "device"),
    (stat.S_ISBLK, "device"),
    (stat.S_ISFIFO, "fifo"),
    (stat.S_ISSOCK, "socket file"),
    (stat.S_ISLNK, "link"),
)


def world(
    init: int,
    root: int,
    container: tuple[int, ...],
    mounted: tuple[str, ...],
    progress: Callable[[int, int], None],
) -> World:
    """Return the session below `root`; its container has the processes `container`, the first of them `init`.

    `mounted` are the mount points in it of folders of the host. `progress` is called with the number of
    processes that were looked at, and of all.
    """
    tree = walk.tree(root)
    places = _places(init, mounted)
    top = walk.status_of(root)
    depth = len(top.inner_pids) if top is not None else 0
    # A task that, like its parents, lacks this for good is in other namespaces only below another user one.
    confined = top is not None and not top.capabilities.bounding & _SYS_ADMIN
    namespaces = walk.namespaces_of(root)
    space = namespaces.get("user", 0) if confined else 0
    counted = _counted(tree.pids)
    # Reading each costs far more, and with too many of them nothing else matters.
    most = MAX_TOTAL if sum(counted.values()) <= MAX_DESCRIPTORS else 0
    looker = _Looker(places.mounts, depth, space, labels.LabelReader(init), most)
    seen = []
    for number, pid in enumerate(tree.pids, start=1):
        if (found := looker.process(pid)) is not None:
            seen.append(found)
        progress(number, len(tree.pids))
    processes = tuple(seen)
    members = {*tree.pids, init}
    outside = tuple(pid for pid in container if pid not in members)[:MAX_OUTSIDE]
    return World(
        processes=processes,
        network=_network(init, root, processes, outside),
        places=places,
        root_namespaces=namespaces,
        pids=_begun_since(processes, depth) | {one.pid: one.inner for one in processes},
        outside=tuple(found for pid in outside if (found := _brief(pid, depth)) is not None),
        whole=tree.whole and not looker.left_out,
        open=counted,
    )


def _begun_since(processes: tuple[SeenProcess, ...], depth: int) -> dict[int, int]:
    """Return the inner pids of processes of the tree that were found by pidfds only.

    Processes are listed first and their descriptors later: a short child can begin in between. A child that
    has ended by then does not have a pid any more (0).
    """
    known = {one.pid for one in processes}
    found: dict[int, int] = {}
    held = (one for process in processes for one in process.descriptors if one.link.name == "pidfd")
    for pid in {one.info.pid for one in held if one.info is not None} - known:
        if pid is None or pid < 1:
            continue
        status = above = walk.status_of(pid)
        if status is None:
            found[pid] = 0
            continue
        for _ in range(MOST_PARENTS):
            if above is None or above.parent in known:
                break
            above = walk.status_of(above.parent)
        # A parent that ended meanwhile has left its children to one that is known: look once more.
        above = above or walk.status_of(pid)
        if above is None or above.parent in known:
            found[pid] = status.pid_at(depth)
    return found


def _counted(pids: tuple[int, ...]) -> dict[int, int]:
    """Count the descriptors of each process, until there are more than a restore judges."""
    found: dict[int, int] = {}
    room = MAX_DESCRIPTORS + 1
    for pid in pids:
        found[pid] = len(walk.descriptors(pid, room))
        room -= found[pid]
        if room <= 0:
            break
    return found


def _places(init: int, mounted: tuple[str, ...]) -> SessionMounts:
    table = {mount.id: mount for mount in mount_table.parse(walk.read(f"{init}/mountinfo") or b"")}
    known = (*ENGINE_FILES, "/", *mounted)
    roots = [mount for mount in table.values() if mount.point == "/"]
    return SessionMounts(
        mounts=table,
        inner=frozenset(
            mount.id
            for mount in table.values()
            if mount.point not in known
            and not f"{mount.point}/".startswith(ENGINE_FOLDERS)
            and not any(mount_table.in_place(mount, root) for root in roots)
        ),
        host=frozenset(mount.id for mount in table.values() if mount.point in mounted),
        engine_files=frozenset(_engine_files(init)),
        proc=frozenset(os.makedev(one.major, one.minor) for one in table.values() if one.kind == "proc"),
        memory=_memory_device(),
    )


def _network(init: int, root: int, processes: tuple[SeenProcess, ...], outside: tuple[int, ...]) -> Network:
    sockets = diag.listed(root)
    known = {one.inode for one in sockets}
    held = {found.link.inode for one in processes for found in one.descriptors if found.link.kind == "socket"}
    peers = {one.peer for one in sockets if one.inode in held} - held
    connected = [one for one in sockets if one.remote_end and one.protocol.startswith("tcp")]
    return Network(
        sockets={one.inode: one for one in sockets if one.inode},
        held=frozenset(held),
        outside=frozenset(_sockets_of(outside)),
        ends=frozenset((one.local_end, one.remote_end) for one in connected),
        unaccepted=frozenset((one.local_end, one.remote_end) for one in connected if not one.inode),
        listeners=tuple(one for one in sockets if one.waiting),
        in_flight=bool(peers & known) and _in_flight(processes),
        unread=_unread(root, processes),
        astray=unix_sockets.astray_files(
            init, {one.inode: one for one in sockets if one.inode in held}, processes
        ),
    )


def _in_flight(processes: tuple[SeenProcess, ...]) -> bool:
    """Check whether descriptors that were sent over a unix socket are still to be received."""
    for process in processes:
        for one in process.descriptors:
            if one.family.startswith("UNIX"):
                info = walk.fdinfo_of(process.pid, one.number)
                if info is not None and info.value("scm_fds") not in (None, "0"):
                    return True
    return False


def _unread(root: int, processes: tuple[SeenProcess, ...]) -> frozenset[int]:
    if not any(one.family == "NETLINK" for process in processes for one in process.descriptors):
        return frozenset()
    table = walk.read(f"{root}/net/netlink") or b""
    return frozenset(inode for inode, waiting in socket_tables.netlink(table) if waiting)


def _sockets_of(pids: tuple[int, ...]) -> Iterator[int]:
    for pid in pids:
        for number in walk.descriptors(pid):
            link = walk.link_of(pid, number)
            if link is not None and link.kind == "socket":
                yield link.inode


def _brief(pid: int, depth: int) -> SeenProcess | None:
    status = walk.status_of(pid)
    if status is None:
        return None
    return SeenProcess(pid, status.pid_at(depth), status, walk.command_of(pid), {})


class _Looker:
    """A reader of processes, one after the other, with a bound on all of them."""

    def __init__(
        self,
        table: Mapping[int, MountedPart],
        depth: int,
        confined: int,
        reader: labels.LabelReader,
        most: int,
    ) -> None:
        """Read at most `most` descriptors.

        `confined` is the user namespace below which no process can make others; 0: there is no such
        confinement.
        """
        self._most = most
        self._labels = reader
        self._confined = confined
        self._mounts = table
        self._depth = depth
        self._looked = 0
        self._patience = PATIENCE
        self.left_out = 0

    def process(self, pid: int) -> SeenProcess | None:
        status = walk.status_of(pid)
        if status is None:
            return None
        if status.state in "ZX":
            return _ended(pid, status.pid_at(self._depth), status)
        return SeenProcess(
            pid,
            status.pid_at(self._depth),
            status,
            walk.command_of(pid),
            self._spaces(pid),
            tuple(self._descriptors(pid)),
            tuple(_memory(pid)),
            self._stuck(pid, status.threads, status.state),
            self._label(pid),
            _most_open(pid),
            _is_deep(pid),
        )

    def _spaces(self, pid: int) -> dict[str, int]:
        found = walk.namespaces_of(pid, ("user",)) if self._confined else {}
        return found if found and found["user"] == self._confined else walk.namespaces_of(pid)

    def _label(self, pid: int) -> str:
        if not self._labels.first:
            return ""
        threads = (self._labels.of(pid, thread) for thread in walk.threads(pid))
        return next((label for label in threads if label and label != self._labels.first), "")

    def _stuck(self, pid: int, threads: int, state: str) -> int:
        """Call the function of that name, as long as there is time left."""
        if self._patience <= 0:
            return 0
        began = time.monotonic()
        found = _stuck(pid, threads, state)
        self._patience -= time.monotonic() - began
        return found

    def _descriptors(self, pid: int) -> Iterator[SeenDescriptor]:
        numbers = walk.descriptors(pid)
        room = max(0, self._most - self._looked)
        self._looked += len(numbers)
        self.left_out += max(0, len(numbers) - room)
        for number in numbers[:room]:
            link = walk.link_of(pid, number)
            if link is not None:
                yield self._descriptor(pid, number, link)

    def _descriptor(self, pid: int, number: int, link: DescriptorTarget) -> SeenDescriptor:
        if link.kind == "socket":
            return SeenDescriptor(number, link, family=walk.protocol_of(pid, number))
        if link.kind == "anon" and link.name not in _PLAIN:
            unread = _unread_events(pid, number) if link.name == "inotify" else 0
            return SeenDescriptor(number, link, walk.fdinfo_of(pid, number), unread=unread)
        if link.kind not in ("path", "memfd"):
            return SeenDescriptor(number, link)
        if link.name.startswith("/dev/") and not link.name.startswith(("/dev/shm/", "/dev/mqueue/")):  # noqa: S108
            file = _file(walk.stat_of(pid, number))
            return SeenDescriptor(number, link, file=file, by_name=walk.by_name(pid, number))
        info = walk.fdinfo_of(pid, number)
        mount = self._mounts.get(info.mount_id) if info is not None else None
        if mount is not None and mount.kind.partition(".")[0] in _SLOW:
            return SeenDescriptor(number, link, info)
        return SeenDescriptor(number, link, info, _file(walk.stat_of(pid, number)))


def _most_open(pid: int) -> int:
    """Return a process's limit of descriptors; 0 if that is not known."""
    try:
        return max(0, resource.prlimit(pid, resource.RLIMIT_NOFILE)[0])
    except OSError:
        return 0


def _is_deep(pid: int) -> bool:
    """Check whether a process is in a folder whose path is longer than the kernel reports."""
    try:
        os.readlink(f"{walk.PROC}/{pid}/cwd")  # noqa: PTH115 - a magic link
    except OSError as error:
        return error.errno == errno.ENAMETOOLONG
    return False


def _unread_events(pid: int, number: int) -> int:
    try:
        queue = pidfd_files.queue(pid, number)
    except OSError:
        return 0
    try:
        return pidfd_files.unread(queue)
    finally:
        os.close(queue)


def _ended(pid: int, inner: int, status: ProcessStatus) -> SeenProcess | None:
    """Return a zombie. A zombie with remaining threads is possibly only about to end."""
    for _ in range(STUCK_LOOKS):
        if status.threads <= 1:
            break
        time.sleep(STUCK_PAUSE)
        again = walk.status_of(pid)
        if again is None:
            return None
        status = again
    return SeenProcess(pid, inner, status, "", {})


def _file(found: os.stat_result | None) -> FileState | None:
    if found is None:
        return None
    kind = next((name for test, name in _KINDS if test(found.st_mode)), "other")
    node = (os.major(found.st_rdev), os.minor(found.st_rdev)) if kind == "device" else (0, 0)
    # Blocks and not the size: holes are not kept.
    return FileState(kind, found.st_dev, found.st_ino, found.st_blocks * 512, found.st_nlink, node)


def _memory(pid: int) -> Iterator[Mapped]:
    # Beyond the limit files go unnamed here: a restore judges all of them.
    with suppress(bounded.TooLong):
        notable = (found for lines in walk.maps(pid) for found in memory_maps.notable(lines))
        for found in islice(notable, MAX_MAPPED):
            yield Mapped(found, _mapped_bytes(pid, found) if found.deleted and found.inode else 0)


def _mapped_bytes(pid: int, found: memory_maps.Mapping) -> int:
    """Return the bytes on disk of a deleted file that is mapped, if it does not have a name any more."""
    if found.path.startswith(("/memfd:", "/SYSV", "/dev/zero", "/dev/shm/")):  # noqa: S108
        return 0
    try:
        status = (walk.PROC / str(pid) / "map_files" / f"{found.start:x}-{found.end:x}").stat()
    except OSError:
        return 0
    return status.st_blocks * 512 if not status.st_nlink else 0


def _stuck(pid: int, threads: int, state: str) -> int:
    """Return the inner id of a thread that stays in an uninterruptible sleep, for which CRIU waits; 0: none.

    A thread that reads from a disk is in one briefly: only one that has not run in between counts.
    """
    candidates = [pid] if threads == 1 else walk.threads(pid)
    if threads == 1 and state != "D":
        return 0
    before = _asleep(pid, candidates)
    for _ in range(STUCK_LOOKS):
        if not before:
            return 0
        time.sleep(STUCK_PAUSE)
        now = _asleep(pid, list(before))
        before = {thread: runs for thread, runs in before.items() if now.get(thread) == runs}
    thread = next(iter(before), 0)
    status = walk.status_of(pid, thread) if thread else None
    return status.inner_pid if status is not None else 0


def _asleep(pid: int, threads: list[int]) -> dict[int, bytes]:
    """Return the threads that cannot be interrupted, with the number of times each has run."""
    found: dict[int, bytes] = {}
    for thread in threads:
        text = walk.read(f"{pid}/task/{thread}/stat", 4096)
        if text is None or process_stat.fields(text)[:1] != [b"D"]:
            continue
        status = walk.read(f"{pid}/task/{thread}/status") or b""
        found[thread] = status[status.find(b"voluntary_ctxt_switches") :]
    return found


def _memory_device() -> int:
    """Return the device of ordinary memfds; memfds of huge pages are on another."""
    descriptor = os.memfd_create("device", os.MFD_CLOEXEC)
    try:
        return os.fstat(descriptor).st_dev
    finally:
        os.close(descriptor)


def _engine_files(init: int) -> Iterator[tuple[int, int]]:
    # Only numbers are taken from whatever is there, and compared with numbers of the same session.
    for path in ENGINE_FILES:
        try:
            found = Path(f"{walk.PROC}/{init}/root{path}").lstat()
        except OSError:
            continue
        yield found.st_dev, found.st_ino
