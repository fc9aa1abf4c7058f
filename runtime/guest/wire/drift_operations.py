"""The operations behind drift: the session's present state, and facts about some files.

Facts are times and sizes, and the package a file came with. The paths come from outside, with the records
of packages that can own them. Only those records are opened, and they are read with limits: a user of the
session can have put anything there.
"""

from __future__ import annotations

import asyncio
import json
import os
import stat
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from holdfast.base.value_classes import dataclass
from holdfast.runtime.guest.guest import Guest
from holdfast.runtime.guest.records.change_notes import kernel_of, processes, shell_of
from holdfast.runtime.guest.shells import shell_state
from holdfast.runtime.guest.wire.call import ClientCall, Operations
from holdfast.runtime.guest.wire.connection import RequestRefused

PER_TURN = 200
"""Paths read before other tasks get their turn: 1 to 2 ms."""
PER_FRAME = 10_000
MAX_PATHS = 200_000
MAX_RECORDS = 2000
MAX_RECORD = 8 << 20
EDITED_AFTER = 100_000_000
"""Nanoseconds after a package's record from which a change of one of its files counts as an edit."""
_DPKG_STATUS = "/var/lib/dpkg/status"
_DPKG_LOG = "/var/log/dpkg.log"
_MERGED = ("/bin/", "/sbin/", "/lib/", "/lib64/")
_KINDS = {stat.S_IFREG: "f", stat.S_IFDIR: "d", stat.S_IFLNK: "l"}


@dataclass(frozen=True, slots=True)
class PackageRecord:
    """A package: its manager, its name, and the file that lists its contents, if there is one."""

    manager: str
    name: str
    record: str


def facts(path: str) -> list[Any] | None:
    """Return kind, size, ctime and mtime (nanoseconds) of a path, or None if it does not exist."""
    try:
        found = os.lstat(path)
    except (OSError, ValueError):
        return None
    return [_KINDS.get(stat.S_IFMT(found.st_mode), "o"), found.st_size, found.st_ctime_ns, found.st_mtime_ns]


class PackageOwners:
    """The owners of files, among some packages."""

    def __init__(self, records: Sequence[PackageRecord]) -> None:
        self._owners: dict[str, tuple[int, int]] = {}
        self._trees: list[tuple[str, int]] = []
        for number, one in enumerate(records):
            written = facts(one.record)
            if written is None:
                continue
            if one.manager == "npm":
                self._trees.append((one.record.removesuffix("package.json"), number))
            for path in _listed(one):
                self._owners[path] = (number, written[2])

    def of(self, path: str, mtime: int) -> int:
        """Return the number of the package, or -1. A file edited after its installation does not have an
        owner."""
        found = self._owners.get(path)
        if found is not None:
            return found[0] if mtime <= found[1] + EDITED_AFTER else -1
        return next((number for tree, number in self._trees if path.startswith(tree)), -1)


def versions_of(records: Iterable[PackageRecord], since: float) -> dict[int, dict[str, str]]:
    """Return versions that names do not contain, by number: `new` as of now, `old` where a log has it."""
    found: dict[int, dict[str, str]] = {}
    numbered = list(enumerate(records))
    debian = {one.name: number for number, one in numbered if one.manager == "apt"}
    if debian:
        installed = _dpkg_versions(debian)
        replaced = _dpkg_replaced(debian, since)
        for name, number in debian.items():
            found[number] = {"new": installed.get(name, "")}
            if name in replaced:
                found[number]["old"] = replaced[name]
    for number, one in numbered:
        if one.manager == "npm":
            found[number] = {"new": _npm_version(one.record)}
    return found


def _listed(one: PackageRecord) -> Iterable[str]:
    if one.manager == "pip":
        return _pip_files(one.record)
    if one.manager == "apt":
        return _dpkg_files(one.record)
    return ()


def _pip_files(record: str) -> Iterable[str]:
    """Return the paths in a wheel's RECORD: relative to the folder next to it, then digest and size."""
    site = os.path.dirname(os.path.dirname(record))  # noqa: PTH120
    for line in _lines(record):
        path = line.rsplit(",", 2)[0].strip('"')
        yield os.path.normpath(os.path.join(site, path))  # noqa: PTH118


def _dpkg_files(record: str) -> Iterable[str]:
    for path in _lines(record):
        yield path
        if path.startswith(_MERGED):
            yield f"/usr{path}"  # /bin is a link to it


def _dpkg_versions(wanted: Mapping[str, int]) -> dict[str, str]:
    found: dict[str, str] = {}
    name, installed = "", False
    for line in _lines(_DPKG_STATUS):
        if line.startswith("Package: "):
            name, installed = line[9:], False
        elif line.startswith("Status: "):
            installed = line.endswith(" installed")
        elif line.startswith("Version: ") and installed and name in wanted:
            found[name] = line[9:]
    return found


def _dpkg_replaced(wanted: Mapping[str, int], since: float) -> dict[str, str]:
    """Parse lines like `2026-01-31 12:00:00 upgrade jq:amd64 1.6 1.7`, in local time; the first counts."""
    begin = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(since))
    found: dict[str, str] = {}
    for line in _lines(_DPKG_LOG):
        fields = line.split(" ")
        if len(fields) == 6 and fields[2] in ("upgrade", "remove", "purge", "install") and line[:19] >= begin:
            name = fields[3].partition(":")[0]
            if name in wanted:
                found.setdefault(name, "" if fields[4] == "<none>" else fields[4])
    return found


def _npm_version(path: str) -> str:
    try:
        fields = json.loads(_text(path) or "null")
    except (ValueError, RecursionError):
        return ""
    version = fields.get("version") if isinstance(fields, dict) else None
    return version[:64] if isinstance(version, str) else ""


def _lines(path: str) -> list[str]:
    return _text(path).splitlines()


def _text(path: str) -> str:
    data = shell_state.read(Path(path), MAX_RECORD)
    return (data or b"").decode("utf-8", "surrogateescape")


async def held(guest: Guest, call: ClientCall) -> None:
    """Send the session's state."""
    await call.finish("holdings", _json(await _holdings(guest)))


async def _holdings(guest: Guest) -> dict[str, Any]:
    """Return the session's state. Takes milliseconds, or seconds where a kernel does not answer."""
    kernels = {name: await kernel_of(kernel) for name, kernel in guest.kernels.items()}
    # Pending changes are written first, so that the journal's entries lead from any of them to here.
    for name, found in kernels.items():
        guest.changes.seen(name, found)
    guest.changes.settle()
    return {
        "at": round(time.time(), 6),
        "seq": guest.journal.last,
        "generation": guest.identity.generation,
        "processes": processes(guest.shells, guest.kernels, guest.lineage),
        "shells": {
            name: {"pid": shell.pid or 0, **shell_of(shell.kept.state())}
            for name, shell in guest.shells.items()
        },
        "kernels": kernels,
    }


async def files(_: Guest, call: ClientCall) -> None:
    """Send kind, size, times and package of each given path, in order, and versions of packages."""
    paths, records, since = _asked(call)
    owners = PackageOwners(records)
    found: list[list[Any] | None] = []
    for number, path in enumerate(paths, start=1):
        known = facts(path)
        if known is not None:
            known.append(owners.of(path, known[3]) if known[0] != "d" else -1)
        found.append(known)
        if number % PER_TURN == 0:
            await asyncio.sleep(0)
        if len(found) == PER_FRAME:
            await call.send("facts", _json(found))
            found = []
    await call.send("facts", _json(found))
    versions = versions_of(records, since)
    await call.finish("versions", _json({str(number): one for number, one in versions.items()}))


def _asked(call: ClientCall) -> tuple[list[str], list[PackageRecord], float]:
    wrong = RequestRefused("invalid", "cannot look at files: the payload must be JSON with paths and records")
    try:
        asked = json.loads(call.frame.payload)
        paths, since = asked["paths"], float(asked["since"])
        records = [PackageRecord(*map(str, one)) for one in asked["records"]]
    except (ValueError, TypeError, KeyError, RecursionError):
        raise wrong from None
    if not isinstance(paths, list) or not all(isinstance(path, str) for path in paths):
        raise wrong
    if len(paths) > MAX_PATHS or len(records) > MAX_RECORDS:
        raise RequestRefused(
            "limit", f"cannot look at files: at most {MAX_PATHS} paths, {MAX_RECORDS} packages"
        )
    return paths, records, since


def _json(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


OPERATIONS: Operations = {"holdings": held, "files": files}
