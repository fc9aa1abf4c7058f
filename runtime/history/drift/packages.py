"""Packages that were installed, removed or replaced, inferred from the paths that changed.  Pure.

Packages of pip, npm, gem, cargo, go and Debian leave files of a known name. Versions that are not in a name
are requested from the guest.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from holdfast.runtime.history.drift.changed_paths import FileChange, Key

_PIP = re.compile(
    r"(?P<place>.*/(?:site|dist)-packages)/(?P<name>[^/]+?)-(?P<version>[^/-]+)\.(?:dist|egg)-info(?:/|$)"
)
_DPKG = re.compile(r"/var/lib/dpkg/info/(?P<name>[a-z0-9][a-z0-9+.-]+)(?::[a-z0-9-]+)?\.list$")
_NPM = re.compile(
    r"(?P<place>(?:(?!/node_modules/).)*/node_modules)/(?P<name>(?:@[^/]+/)?[^/@.][^/]*)/package\.json$"
)
_GEM = re.compile(
    r"(?P<place>.*/gems)(?:/[\d.]+)?/specifications/(?P<name>.+)-(?P<version>\d[^/-]*)\.gemspec$"
)
_BINARY = re.compile(r"(?P<place>.*/(?P<tool>\.cargo|go)/bin)/(?P<name>[^/]+)$")
_DEBIAN_PYTHON = "/usr/lib/python3/dist-packages"
"""Part of Debian's packages, which are reported as such."""


@dataclass(frozen=True, slots=True)
class Package:
    """One package that changed. `old` and `new` are versions; `record` is the file that proves it is
    installed.

    A package without `new` was removed, one without `old` is new, unless `replaced`: then the old version
    is not known. `place` is the folder it is in, empty where there is only one.
    """

    manager: str
    name: str
    old: str | None = None
    new: str | None = None
    place: str = ""
    record: str = ""
    replaced: bool = False
    at: float | None = None
    files: int = 0
    by: tuple[int, ...] = ()

    @property
    def key(self) -> Key:
        """Its identity, whatever its version."""
        return (self.manager, self.place, re.sub(r"[-_.]+", "-", self.name).lower())


def find(changes: Iterable[FileChange]) -> list[Package]:
    """Return the packages whose own record is among the changes, by manager and name."""
    found: dict[Key, Package] = {}
    for change in changes:
        one = _package(change)
        if one is not None:
            old = found.get(one.key)
            found[one.key] = one if old is None else _joined(old, one)
    return sorted(found.values(), key=lambda one: (one.manager, one.place, one.name.lower()))


def settle(
    found: Iterable[Package], versions: Mapping[Key, Mapping[str, str]], known: Mapping[Key, str]
) -> list[Package]:
    """Fill in versions: from the guest, and from the earlier state."""
    settled = []
    for one in found:
        about = versions.get(one.key, {})
        new = about.get("new") or one.new
        if one.manager == "apt" and "new" in about and not about["new"]:
            new = None  # its list exists for its configuration alone
        old = one.old or about.get("old") or known.get(one.key)
        settled.append(replace(one, old=old or None, new=new))
    return [one for one in settled if one.old != one.new or one.replaced]


def separate(
    changes: Iterable[FileChange], found: Iterable[Package]
) -> tuple[list[FileChange], list[Package]]:
    """Return the files that no package explains, and the packages with the numbers of their files."""
    every = list(found)
    keys = {one.key for one in every}
    left: list[FileChange] = []
    counts: Counter[Key] = Counter()
    for change in changes:
        owner = change.owner if change.owner in keys else _gone_with(change, every)
        if owner is None:
            left.append(change)
        else:
            counts[owner] += 1
    return left, [replace(one, files=counts[one.key]) for one in every]


def _gone_with(change: FileChange, found: Sequence[Package]) -> Key | None:
    """Attribute a removed file, which names no package, to one that left the same folder."""
    own = next((one for one in found if one.record == change.path), None)
    if own is not None:
        return own.key
    if change.change != "deleted":
        return None
    for one in found:
        if one.manager == "npm" and change.path.startswith(f"{one.place}/{one.name}"):
            return one.key
        if one.manager in ("pip", "gem") and one.old and change.path.startswith(f"{one.place}/"):
            return one.key
    return None


def _package(change: FileChange) -> Package | None:
    gone = change.change == "deleted"
    for manager, pattern in (("pip", _PIP), ("apt", _DPKG), ("npm", _NPM), ("gem", _GEM)):
        if not (match := pattern.match(change.path)):
            continue
        parts = match.groupdict()
        place = parts.get("place", "")
        if manager == "pip" and (place == _DEBIAN_PYTHON or not _proves(change, match.end())):
            return None
        version = parts.get("version") or ""
        return Package(
            manager,
            parts["name"],
            old=version if gone else None,
            new=None if gone else version,
            place=place,
            record=change.path,
            replaced=change.change == "changed",
            at=change.at,
        )
    if (match := _BINARY.match(change.path)) and not change.folder:
        manager = "cargo" if match["tool"] == ".cargo" else "go"
        new = None if gone else ""
        changed = change.change == "changed"
        return Package(manager, match["name"], "" if gone else None, new, "", change.path, changed, change.at)
    return None


def _proves(change: FileChange, end: int) -> bool:
    """Check for a folder that was removed as a whole, or the file that is written last; other files only
    follow.
    """
    return change.path.endswith("/RECORD") or (change.change == "deleted" and end >= len(change.path))


def _joined(one: Package, other: Package) -> Package:
    """Join a removed old version and a new version of the same package."""
    there, gone = (one, other) if one.new is not None else (other, one)
    return replace(there, old=gone.old if gone.new is None else there.old)
