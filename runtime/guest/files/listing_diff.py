"""What changed between two lists of the same folder. Pure.

A list is made before a capture and one after it: nothing watches in between.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from holdfast.runtime.guest.files.folder_walk import Signature
from holdfast.runtime.guest.files.path_events import PathChange

Listing = dict[str, Signature | None]
"""Signatures by path; None where one changed too lately to be sure of it."""
MAX_MOVED = 100
"""Folders whose renames are recognized: each one takes a look at the whole list."""


def apply(listing: Listing, happened: Iterable[PathChange]) -> bool:
    """Bring a list up to date with changes that were not looked at; return whether that is possible."""
    folders = 0
    for change in happened:
        if change.kind == "lost":
            return False
        if change.kind in ("created", "modified", "attributes"):
            listing[change.path] = None
            continue
        folders += change.folder
        if folders > MAX_MOVED:
            return False
        for path in [change.path, *(_below(listing, change.path) if change.folder else ())]:
            found = listing.pop(path, None)
            if change.to is not None:
                listing[change.to + path[len(change.path) :]] = found if path != change.path else None
    return True


def changes(before: Listing, after: Mapping[str, Signature]) -> Iterator[PathChange]:
    """Yield what happened, as far as it shows: what was made and removed meanwhile does not."""
    before = dict(before)
    yield from _renames(before, after)
    for path in sorted(before.keys() - after.keys(), reverse=True):  # what is in a folder before the folder
        found = before[path]
        yield PathChange("removed", path, found is not None and found.folder)
    for path in sorted(after):
        now = after[path]
        if path not in before:
            yield PathChange("created", path, now.folder)
            continue
        then = before[path]
        if then is None and now.folder:
            yield PathChange("attributes", path, folder=True)
        elif then is None or (then.inode, then.folder) != (now.inode, now.folder):
            yield PathChange("modified", path, now.folder)
        elif not now.folder and (then.size, then.modified) != (now.size, now.modified):
            yield PathChange("modified", path)
        elif _attributes(then) != _attributes(now):
            yield PathChange("attributes", path, now.folder)


def _attributes(one: Signature) -> tuple[int, ...]:
    return one.mode, one.uid, one.gid, 0 if one.folder else one.changed


def _renames(before: Listing, after: Mapping[str, Signature]) -> Iterator[PathChange]:
    """Yield renames, folders above before what is in them; change the first list as if they were known."""
    gone = {found.inode: path for path, found in before.items() if found is not None and path not in after}
    folders = 0
    for path in sorted(after.keys() - before.keys()):
        now = after[path]
        old = gone.get(now.inode)
        then = before.get(old) if old is not None else None
        if old is None or then is None or path in before or not _same(then, now):
            continue
        folders += now.folder
        if now.folder and folders > MAX_MOVED:
            continue
        yield PathChange("renamed", old, now.folder, path)
        for inner in [old, *(_below(before, old) if now.folder else ())]:
            found = before.pop(inner)
            if found is not None:
                gone.pop(found.inode, None)
                if inner == old:  # a rename changes this time
                    found = found._replace(changed=now.changed)
            before[path + inner[len(old) :]] = found


def _same(then: Signature, now: Signature) -> bool:
    if then.folder or now.folder:
        return then.folder and now.folder
    return (then.mode, then.size, then.modified) == (now.mode, now.size, now.modified)


def _below(listing: Listing, path: str) -> list[str]:
    return [each for each in listing if each.startswith(f"{path}/")]
