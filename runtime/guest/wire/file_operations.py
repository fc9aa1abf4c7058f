"""The operations on files: look, list, read, write, make, move, remove. Each can be repeated.

Every request is done with the rights of the session's user, or of one that is named. New files belong to
that user, or to a named `owner`.
"""

from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import Iterator
from itertools import islice
from typing import Any

from holdfast.runtime.guest.defaults import MOST_FOUND
from holdfast.runtime.guest.files import file_facts, removal
from holdfast.runtime.guest.files.as_user import give_folder_to_owner, make_owned_folders
from holdfast.runtime.guest.files.file_facts import checked_attributes, read_attributes
from holdfast.runtime.guest.guest import Guest
from holdfast.runtime.guest.wire.call import ClientCall, Operations
from holdfast.runtime.guest.wire.connection import RequestRefused
from holdfast.runtime.guest.wire.named_path import NamedPath, json_bytes, refusing

MAX_READ = 4 << 20
_PIECE = 64 << 10
PER_TURN = 200
"""Names looked at before others get their turn: about a millisecond."""
PER_FRAME = 2000
PER_SEARCH = 20
"""Names or 256 KiB of content searched before others get their turn."""
MAX_NAMES = 200_000
"""Most names of one folder."""


async def look(guest: Guest, call: ClientCall) -> None:
    """Send the facts about one path."""
    place = NamedPath(guest, call)
    with place.rights("look at"):
        found = file_facts.facts(place.path, follow=place.follow)
        if _with_attributes(call):
            found["attributes"] = read_attributes(
                os.path.realpath(place.path) if place.follow else place.path
            )
    await call.finish("facts", json_bytes({**found, "path": place.path}))


def _with_attributes(call: ClientCall) -> bool:
    return call.frame.head.get("attributes") is True


async def list_(guest: Guest, call: ClientCall) -> None:
    """Send the facts about everything in a folder, in the order of the names."""
    place = NamedPath(guest, call)
    with place.rights("list"):
        names = sorted(os.listdir(place.path))  # noqa: PTH208
    if len(names) > MAX_NAMES:
        raise RequestRefused("limit", f"cannot list {place.shown}: it has more than {MAX_NAMES} names")
    found: list[dict[str, Any]] = []
    for start in range(0, len(names), PER_TURN):
        with place.rights("list"):
            some = names[start : start + PER_TURN]
            found += _facts_of(place.path, some, attributes=_with_attributes(call))
        await asyncio.sleep(0)
        if len(found) >= PER_FRAME:
            await call.send("facts", json_bytes(found))
            found = []
    await call.finish("facts", json_bytes(found))


def _facts_of(folder: str, names: list[str], *, attributes: bool) -> Iterator[dict[str, Any]]:
    for name in names:
        path = f"{folder.rstrip('/')}/{name}"
        try:
            found = file_facts.facts(path, follow=False)
        except FileNotFoundError:
            continue
        if attributes and (kept := read_attributes(path)):
            found["attributes"] = kept
        yield found


async def read(guest: Guest, call: ClientCall) -> None:
    """Send a range of a regular file, and the facts about it at that moment."""
    place = NamedPath(guest, call)
    offset, length = call.integer("offset", low=0), call.integer("length", low=0, high=MAX_READ)
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
    with place.rights("read"):
        descriptor = os.open(place.path, flags if place.follow else flags | os.O_NOFOLLOW)
        try:
            found = os.fstat(descriptor)
            if not stat.S_ISREG(found.st_mode):
                kind = file_facts.KINDS.get(stat.S_IFMT(found.st_mode), "device")
                raise RequestRefused("not_a_file", f"cannot read {place.shown}: it is a {kind}, not a file")
            # Files of proc(5) have no size; some refuse to be read in large pieces.
            if found.st_size == 0:
                data, size = _unsized(descriptor, length, offset)
            else:
                data, size = os.pread(descriptor, length, offset), found.st_size
        finally:
            os.close(descriptor)
    await call.finish("data", data, size=size, version=file_facts.of(found, place.path)["version"])


def _unsized(descriptor: int, length: int, offset: int) -> tuple[bytes, int]:
    """Return a range of a file that claims to be empty, and its size; one byte too many if there is more."""
    data = b""
    while len(data) < length:
        piece = os.pread(descriptor, min(_PIECE, length - len(data)), offset + len(data))
        if not piece:
            return data, offset + len(data)
        data += piece
    return data, offset + len(data) + 1


async def begin(guest: Guest, call: ClientCall) -> None:
    """Begin to write a file."""
    place = NamedPath(guest, call)
    with place.rights("write"):
        guest.uploads.begin(call.id(), place.path, place.account, place.owner)
    await call.finish("ok")


async def write(guest: Guest, call: ClientCall) -> None:
    """Write a part of a file that was begun."""
    with refusing("write it"):
        guest.uploads.write(call.id(), call.integer("offset", low=0), call.frame.payload)
    await call.finish("ok")


async def finish(guest: Guest, call: ClientCall) -> None:
    """Move a written file to its destination."""
    given = call.frame.head
    mode = None if given.get("mode") is None else call.integer("mode", low=0, high=0o777)
    when = None if given.get("mtime_ns") is None else call.integer("mtime_ns", low=-(2**62), high=2**62)
    attributes = checked_attributes(given.get("attributes") or {})
    if attributes is None:
        raise RequestRefused(
            "invalid", f"cannot do {call.frame.op}: its attributes are not valid, or too long"
        )
    with refusing("write it"):
        guest.uploads.finish(call.id(), call.integer("size", low=0), mode, when, attributes)
    await call.finish("ok")


async def abandon(guest: Guest, call: ClientCall) -> None:
    """Remove the written parts of a file."""
    guest.uploads.abandon(call.id())
    await call.finish("ok")


async def make_folder(guest: Guest, call: ClientCall) -> None:
    """Make a folder unless it is there; with `parents` also those above it."""
    place, mode = NamedPath(guest, call), call.integer("mode", 0o755, low=0, high=0o777)
    with place.rights("make the folder"):
        if call.frame.head.get("parents") is True:
            make_owned_folders(place.path, place.account, place.owner)
        elif not os.path.isdir(place.path):  # noqa: PTH112
            os.mkdir(place.path)  # noqa: PTH102
            os.chmod(place.path, mode)  # noqa: PTH101
            give_folder_to_owner(place.path, place.account, place.owner)
    await call.finish("ok")


async def make_link(guest: Guest, call: ClientCall) -> None:
    """Make a symbolic link; a link or file of that name is replaced."""
    place = NamedPath(guest, call)
    target = place.other("target", resolve=False)
    part = f"{os.path.dirname(place.path)}/.{call.id()[:32]}.part"  # noqa: PTH120
    with place.rights("make the link"):
        if os.path.lexists(part):
            os.unlink(part)  # noqa: PTH108
        os.symlink(target, part)  # noqa: PTH211
        try:
            os.replace(part, place.path)  # noqa: PTH105
        except OSError:
            os.unlink(part)  # noqa: PTH108
            raise
    await call.finish("ok")


async def move(guest: Guest, call: ClientCall) -> None:
    """Rename a file or folder on the same file system."""
    place = NamedPath(guest, call)
    to = place.other("to")
    if call.id() not in guest.file_calls:
        with place.rights("move"):
            os.rename(place.path, to)  # noqa: PTH104
        guest.file_calls.add(call.id())
    await call.finish("ok")


async def change_mode(guest: Guest, call: ClientCall) -> None:
    """Change the permissions of a file or folder; a link is followed."""
    place, mode = NamedPath(guest, call), call.integer("mode", low=0, high=0o777)
    with place.rights("change the permissions of"):
        os.chmod(place.path, mode)  # noqa: PTH101
    await call.finish("ok")


async def find(guest: Guest, call: ClientCall) -> None:
    """Send the files below a folder that have a name, or lines of them that have a text."""
    place, most = NamedPath(guest, call), call.integer("most", low=1, high=MOST_FOUND)
    name, containing = place.other("name", resolve=False), place.text("containing")
    from holdfast.runtime.guest.files import tree_search

    with place.rights("search"):
        steps = tree_search.search(place.path.removesuffix("/.") or "/", name, containing)
        first = next(steps, None)
    found = [] if first is None else [first]
    try:
        more = True
        while more and len(found) < most:
            with place.rights("search"):
                some = list(islice(steps, PER_SEARCH))
            more = len(some) == PER_SEARCH
            found += [each for each in some if each is not None]
            await asyncio.sleep(0)
    except tree_search.SearchTooLarge:
        raise RequestRefused(
            "limit",
            f"cannot search {place.shown}: there are more than {tree_search.MOST_LOOKED_AT} names below it, "
            f"or folders more than {tree_search.DEEPEST} deep",
        ) from None
    finally:
        steps.close()
    kinds = file_facts.KINDS
    told = [each | {"kind": kinds.get(each["kind"], "device")} if "kind" in each else each for each in found]
    for start in range(0, most, PER_FRAME):
        if start + PER_FRAME < min(most, len(told)):
            await call.send("found", json_bytes(told[start : start + PER_FRAME]))
            continue
        await call.finish("found", json_bytes(told[start : min(most, start + PER_FRAME)]))
        return


async def remove(guest: Guest, call: ClientCall) -> None:
    """Remove a file, or with `recursive` a folder with its contents."""
    place, recursive = NamedPath(guest, call), call.frame.head.get("recursive") is True
    tolerant = call.id() in guest.file_calls or call.frame.head.get("missing_ok") is True
    guest.file_calls.add(call.id())
    steps = removal.steps(place.path, recursive=recursive, missing_ok=tolerant)
    while True:
        with place.rights("remove"):
            if sum(1 for _ in islice(steps, PER_TURN)) < PER_TURN:
                break
        await asyncio.sleep(0)
    await call.finish("ok")


OPERATIONS: Operations = {
    "file_look": look,
    "file_list": list_,
    "file_read": read,
    "file_begin": begin,
    "file_write": write,
    "file_finish": finish,
    "file_abandon": abandon,
    "file_folder": make_folder,
    "file_link": make_link,
    "file_move": move,
    "file_remove": remove,
    "file_mode": change_mode,
    "file_find": find,
}
