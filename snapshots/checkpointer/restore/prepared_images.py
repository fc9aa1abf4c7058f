"""The images of a snapshot as CRIU is to read them, in a scratch folder of one restore.

The kept images are never changed: the folder has hard links to them, and images are replaced, not written to.

The tree of processes: CRIU gets a possible one, and the guard the changes that turn it into the captured
one (`ancestry.py`).

Login uids: the kernel's audit log names processes by them (/proc/PID/loginuid): one from an image would put
what a session does under the name of a person. This process has the same one as every container of this
engine, and processes that CRIU makes inherit it, unless its image names another.

Removed folders that processes stand in, or have open: CRIU makes such a folder by its name, enters it and
removes it (open_remap_ghost() of criu/files-reg.c). After `rm -r build; mkdir build` it would enter the new
folder, and remove that or fail. So they get a new name if their own is taken by now.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from holdfast.procfs import bounded
from holdfast.snapshots.checkpointer.carried import (
    event_queues,
    heaps,
    personalities,
    wall_timers,
)
from holdfast.snapshots.checkpointer.criu import criu_images, earlier_images
from holdfast.snapshots.checkpointer.criu.criu_images import ImageFolder
from holdfast.snapshots.checkpointer.ground import beneath
from holdfast.snapshots.checkpointer.record import (
    REMOVED_FOLDER,
    ImagesUnreadable,
    ancestry,
    image_paths,
    outside,
    text,
)
from holdfast.snapshots.checkpointer.record.ancestry import Relatives
from holdfast.snapshots.checkpointer.restore import adapted_entries
from holdfast.snapshots.checkpointer.restore.flat_memory import FlatMemory, MarkedMemory, WaitingPages
from holdfast.snapshots.checkpointer.survey import unix_sockets

_REWRITTEN = ("files.img", "tty-info.img", "tty-data.img")
_MAX_FACTS = 1 << 20
"""Bytes. It has a number, the name of a mount, two numbers for some processes, names of sockets, timers."""
MAX_BEYOND, MOST_BEYOND = 1 << 14, 2 * 1001
"""Bytes that the guard keeps of one terminal, and of how many (guard_queues.c, LARGEST and MOST)."""
_MOST_IDS = 1 << 22  # PID_MAX_LIMIT of the kernel
_UNSET = 2**32 - 1
_DIGITS = 32
_MOST_NAMES = 1000
"""Names that are tried."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """The state of sockets, the guard's input for terminals, whether memory comes on demand, and the highest
    id in the images: CRIU must not get it itself. `by_packets`: connections send packets while CRIU makes
    them. `queues`: of `event_queues.unmark`.
    """

    sockets: adapted_entries.SocketCounts
    terminals: str
    lazy: bool
    highest: int
    by_packets: bool
    queues: dict[int, tuple[bool, int]]


def prepare(kept: Path, images: Path, *, old: tuple[str, ...], new: tuple[str, ...], lazy: bool) -> Prepared:
    """Fill the scratch folder with CRIU's input. Raises Unreadable, OSError."""
    magic, found = criu_images.read(kept / "files.img")
    lazy = _adapt_memory(kept, images, found) and lazy
    for source in kept.iterdir():
        if source.suffix == ".img" and source.name not in _REWRITTEN and not (images / source.name).exists():
            os.link(source, earlier_images.lay_out(source.name, images))
    outcome = adapted_entries.adapt_sockets(found, old, new)
    adapted_entries.adapt_accepted(found)
    adapted_entries.order_sockets(found)
    adapted_entries.let_engine_files_differ(found)
    tty_magic, ttys = criu_images.read(kept / "tty-info.img")
    made = ""
    processes = criu_images.read(kept / "pstree.img")[1]
    if ttys:
        adapted_entries.adapt_terminals(ttys, processes)
        made = adapted_entries.plan_terminals(found, ttys, processes)
        adapted_entries.order_terminals(ttys)
        criu_images.write(images / "tty-info.img", tty_magic, ttys)
    queue_magic, queues = criu_images.read(kept / "tty-data.img")
    if queues:
        adapted_entries.lengthen_queues(queues, _beyond_queues(kept))
        criu_images.write(images / "tty-data.img", queue_magic, queues)
    watchers = event_queues.unmark(found)
    criu_images.write(images / "files.img", magic, found)
    ids = [number for one in processes for number in (one.pid, one.pgid, one.sid, *one.threads)]
    # Processes in no group or session that is visible from there have an invalid number.
    highest = max((number for number in ids if number < _MOST_IDS), default=0)
    by_packets = adapted_entries.half_closed(found) or criu_images.has_unacknowledged(images)
    return Prepared(outcome, made, lazy, highest, by_packets, watchers)


def read_facts(kept: Path) -> dict[str, Any]:
    """Read the capture's notes next to CRIU's images.

    Raises:
        Unreadable: it is not what a capture writes.
        OSError: it cannot be read.
    """
    try:
        facts = json.loads(bounded.read(kept / "facts.json", _MAX_FACTS))
    except (bounded.TooLong, ValueError, RecursionError) as error:
        raise ImagesUnreadable(f"facts.json cannot be read ({error})") from error
    if not isinstance(facts, dict) or not isinstance(facts.get("tmpfs"), list):
        raise ImagesUnreadable("facts.json cannot be read (its version is different)")
    return {
        **facts,
        "personalities": personalities.noted(facts.get("personalities")),
        "sockets": unix_sockets.checked_names(facts.get("sockets")),
        "timers": wall_timers.checked(facts.get("timers")),
    }


def name_sockets(images: Path, noted: Mapping[int, list[str]]) -> dict[str, str]:
    """Name sockets of a copy such that the guard can distinguish them; return the guard's input."""
    magic, entries = criu_images.read(images / "files.img")
    known = unix_sockets.give_names(entries, noted)
    criu_images.write(images / "files.img", magic, entries)
    return known


def _beyond_queues(kept: Path) -> dict[int, bytes]:
    """Return the guard's terminal data next to CRIU's images, by CRIU's number of the end.

    Raises:
        Unreadable: it is more than the guard writes.
    """
    found = list(islice(kept.glob("beyond-*"), MOST_BEYOND + 1))
    if len(found) > MOST_BEYOND:
        raise ImagesUnreadable("there are more queues of terminals than any capture has")
    try:
        return {int(path.name.partition("-")[2]): bounded.read(path, MAX_BEYOND) for path in found}
    except (bounded.TooLong, ValueError) as error:
        raise ImagesUnreadable(f"queues of terminals cannot be read ({error})") from error


def _adapt_memory(kept: Path, images: Path, files: list[Any]) -> bool:
    """Write the images of memory that must be changed; return whether memory can come on demand."""
    inodes = criu_images.read(kept / "memfd.img")[1]
    sealed = adapted_entries.sealed_files(inodes, files)
    on_demand = True
    for source in kept.glob("mm-*.img") if inodes else ():
        magic, (memory, *_) = criu_images.read(source)
        on_demand = on_demand and not adapted_entries.mapped_privately(memory)
        if adapted_entries.map_read_only(memory, sealed):
            criu_images.write(images / source.name, magic, [memory])
    return on_demand


@dataclass(slots=True)
class WaitingHeaps:
    """The inner pids of processes with heaps that wait until they are used, and pages in earlier images."""

    processes: list[int]
    pages: WaitingPages


def leave_heaps(kept: Path, images: Path) -> WaitingHeaps:
    """Make only large heaps wait until they are used.

    Nothing is changed if there is too little of them.

    Raises:
        ImagesUnreadable: these are not the images of a capture.
        OSError: they cannot be read or written.
    """
    found: list[MarkedMemory] = []
    left = WaitingHeaps([], WaitingPages())
    for source in kept.glob("pagemap-*.img"):
        number = source.stem.partition("-")[2]
        _, memory = criu_images.read(kept / f"mm-{number}.img")
        if not number.isdecimal() or not memory:  # the pages of shared memory: they do not wait
            continue
        marked = FlatMemory(kept, number).marked(heaps.waiting_heaps(memory[0].vmas))
        found.append(marked)
        left.processes += [int(number)] if marked.waiting_pages else []
    if sum(one.waiting_pages for one in found) * heaps.PAGE < heaps.LEAST_OF_WAITING_TREE:
        return WaitingHeaps([], left.pages)
    for one in found:
        one.write(images, left.pages)
    earlier_images.forget(images)
    return left


def relatives(source: ImageFolder) -> list[Relatives]:
    """Return the processes in images, as captured.

    Raises:
        Unreadable: they are not images of CRIU.
    """
    return [
        Relatives(
            int(one.pid), int(one.ppid), int(one.sid), int(one.pgid), outside.has_ended(source, int(one.pid))
        )
        for one in source.messages("pstree")
    ]


def adopt(images: Path, source: ImageFolder) -> dict[str, str]:
    """Rewrite the tree in a scratch folder, `source`, if need be; return the births for the guard.

    Images are replaced, not changed: they share their inodes with the kept snapshot.

    Raises:
        Unreadable: they are not images of CRIU.
        OSError: they cannot be written.
    """
    captured = relatives(source)
    plan = ancestry.plan(captured)
    if plan.tasks == captured:
        return {}
    path = images / "pstree.img"
    magic, found = criu_images.read(path)
    known = {int(one.pid): one for one in found}
    path.unlink()
    criu_images.write(path, magic, [_with_parents(known[task.pid], task) for task in plan.tasks])
    return {"HOLDFAST_ADOPTED": ancestry.spelled(plan.births)}


def _with_parents(entry: Any, task: Relatives) -> Any:
    entry.ppid, entry.sid, entry.pgid = task.parent, task.session, task.group
    return entry


def forget_login_ids(images: Path, source: ImageFolder) -> None:
    """Take the login uid out of the images in a scratch folder, `source`, unless none is set there and here.

    Images are replaced, not changed: they share their inodes with the kept snapshot.
    """
    own = _own_login_id()
    for name in source.numbered("core"):
        said = [core.tc.loginuid for core in source.messages(name) if core.tc.HasField("loginuid")]
        if any((own, one) != (_UNSET, _UNSET) for one in said):
            path = images / f"{name}.img"
            magic, found = criu_images.read(path)
            for core in found:
                core.tc.ClearField("loginuid")
            path.unlink()
            criu_images.write(path, magic, found)


def _own_login_id() -> int:
    """Return the login uid of this process; a kernel without audit has none."""
    try:
        return int(bounded.read(Path("/proc/self/loginuid"), _DIGITS))
    except (OSError, ValueError):
        return _UNSET


def rename_removed_folders(root: Path, images: Path) -> None:
    """Edit the open files in a scratch folder for a container that does not run yet, and has all its files.

    Raises:
        Unreadable: the images cannot be read.
        OSError: they cannot be written, or no name is free below `root`.
    """
    source = ImageFolder(images)
    removed = image_paths.removed(source)
    if not removed:
        return
    path = images / "files.img"
    magic, entries = criu_images.read(path)
    folder = os.open(root, beneath.ROOT)
    try:
        given: dict[str, int] = {}
        is_changed = False
        for entry in entries:
            number = removed.get(entry.id) if entry.HasField("reg") else None
            if number is None or not _is_folder(source, number):
                continue
            name = text(entry.reg.name)
            free = _free_name(folder, name, number, given)
            given[free] = number
            if free != name:
                entry.reg.name = os.fsencode(free)
                is_changed = True
    finally:
        os.close(folder)
    if is_changed:
        path.unlink()  # it may be a link to what is kept
        criu_images.write(path, magic, entries)


def _is_folder(source: ImageFolder, number: int) -> bool:
    return any(stat.S_ISDIR(int(ghost.mode)) for ghost in source.messages(f"ghost-file-{number:x}")[:1])


def _free_name(root: int, name: str, number: int, given: dict[str, int]) -> str:
    """Return `name` if it is free, or a free name next to it; entries of one folder share it."""
    parent = name.rpartition("/")[0]
    for tried in (name, *(f"{parent}/{REMOVED_FOLDER}{number + more}" for more in range(_MOST_NAMES))):
        if given.get(tried, number) == number and not _exists(root, tried):
            return tried
    raise FileExistsError(f"no name is free next to {name[:300]!r}, a removed folder")


def _exists(root: int, path: str) -> bool:
    try:
        os.close(beneath.seen_inside(root, path, os.O_PATH | os.O_NOFOLLOW))
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True
    return True
