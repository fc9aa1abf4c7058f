"""The service of files, `filesystem.Filesystem/*`, and other requests of clients to the daemon in a sandbox.

A path is relative to the session's directory, as everywhere in sessions; E2B's own servers take the home of
the user instead, and an empty path for that folder. Names of owners come from the session's own tables:
they are only shown, and never decide about rights.
"""

from __future__ import annotations

import posixpath
import re
import stat
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated, Any, Protocol

from pydantic import Field
from starlette.responses import JSONResponse, Response

from holdfast.errors import InvalidArgument, SessionFileError, SessionFileNotFound, SessionNotFound
from holdfast.runtime.api.controller import Holdfast
from holdfast.runtime.api.session import Session
from holdfast.runtime.api.session_files import SessionFiles, located, with_attributes
from holdfast.runtime.e2b.connect_wire import NotOffered, SandboxUnavailable, WireBody
from holdfast.runtime.e2b.sandbox_caller import From
from holdfast.runtime.e2b.sandbox_lives import SandboxFacts, ended
from holdfast.runtime.files.session_file import Kind, SessionFile
from holdfast.runtime.serve.models.base_models import TEXT
from holdfast.runtime.serve.routes.api_router import wire_router

MOST_TABLE = 256 << 10
"""Bytes of a table that are read."""
_ACCOUNT = re.compile(rb"^([A-Za-z0-9_][A-Za-z0-9_.-]{0,31}):[^:\n]*:(\d{1,10})(?::|$)", re.MULTILINE)


class AccountNames:
    """The names in a session; a table is read when its first name is needed."""

    def __init__(self, files: SessionFiles) -> None:
        self._files = files
        self._tables: dict[str, dict[int, str]] = {}

    def user(self, uid: int) -> str:
        """Return the name of a user, or the number of one that has none."""
        return self._name("/etc/passwd", uid)

    def group(self, gid: int) -> str:
        """Return the name of a group, or the number of one that has none."""
        return self._name("/etc/group", gid)

    def _name(self, table: str, number: int) -> str:
        if number == 0:
            return "root"  # most files are root's: the tables are seldom needed
        if table not in self._tables:
            self._tables[table] = self._read(table)
        return self._tables[table].get(number, str(number))

    def _read(self, table: str) -> dict[int, str]:
        try:
            return names_in(self._files.read(table, 0, MOST_TABLE))
        except SessionFileError:  # it is missing, or something else than a file
            return {}


def names_in(table: bytes) -> dict[int, str]:
    """Return the names in a table like passwd(5) and group(5), by number; the first of a number counts."""
    found: dict[int, str] = {}
    for line in _ACCOUNT.finditer(table):
        found.setdefault(int(line[2]), line[1].decode())
    return found


FILE, FOLDER, LINK = "FILE_TYPE_FILE", "FILE_TYPE_DIRECTORY", "FILE_TYPE_SYMLINK"
METADATA = "e2b."
_FORMATS: dict[Kind, int] = {
    "file": stat.S_IFREG,
    "folder": stat.S_IFDIR,
    "link": stat.S_IFLNK,
    "fifo": stat.S_IFIFO,
    "socket": stat.S_IFSOCK,
    "device": stat.S_IFCHR,
}
_EARLIEST, _LATEST = -62_135_596_800, 253_402_300_799
"""The years 1 to 9999, in seconds from 1970: those of a Timestamp. A session can set others."""


class OwnerNames(Protocol):
    """Knows the names of users and groups."""

    def user(self, uid: int) -> str:
        """Return the name of a user."""
        ...

    def group(self, gid: int) -> str:
        """Return the name of a group."""
        ...


def entry(path: str, found: SessionFile, names: OwnerNames, leads_to: Kind | None = None) -> dict[str, Any]:
    """Return the `EntryInfo` of a file at an absolute path.

    `leads_to` is the kind of a link's target, if known. A link has the type of that, and is marked as a
    link: older clients leave out of lists what is neither file nor folder.
    """
    told: dict[str, Any] = {
        "name": shown(posixpath.basename(path) or "/"),
        "type": _type(found.kind if leads_to is None else leads_to),
        "path": shown(path),
        "size": str(found.size),  # 64-bit numbers are strings in Proto3 JSON
        "mode": found.mode & 0o777,
        "permissions": stat.filemode(_FORMATS[found.kind] | found.mode),
        "owner": names.user(found.uid),
        "group": names.group(found.gid),
        "modifiedTime": moment(found.mtime_ns),
    }
    if metadata := _metadata(found):
        told["metadata"] = metadata
    if found.kind == "link":
        above = posixpath.dirname(path)
        told["symlinkTarget"] = shown(clean(posixpath.join(above, found.target or "")))
        told["isSymlink"] = True
    return told


def uploaded_entry(path: str, metadata: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Return the description of a file that was uploaded, with its metadata."""
    told: dict[str, Any] = {"path": shown(path), "name": shown(posixpath.basename(path)), "type": "file"}
    return told | ({"metadata": dict(metadata)} if metadata else {})


def attributes_of(metadata: Mapping[str, str]) -> dict[str, str]:
    """Return metadata as attributes of a file: E2B's name, `user.e2b.KEY`, without the first part."""
    return {METADATA + key: value for key, value in metadata.items()}


def _metadata(found: SessionFile) -> dict[str, str]:
    kept = found.attributes.items()
    return {key.removeprefix(METADATA): value for key, value in kept if key.startswith(METADATA)}


def clean(path: str) -> str:
    """Return a path without redundant parts; `..` depends on links, and stays."""
    return path if ".." in path.split("/") else posixpath.normpath("/" + path.lstrip("/"))


def shown(text: str) -> str:
    """Return a path as text: names can have any bytes, and invalid UTF-8 cannot be sent."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def moment(mtime_ns: int) -> str:
    """Return nanoseconds since 1970 as an RFC 3339 time."""
    seconds, nanoseconds = divmod(mtime_ns, 10**9)
    if not _EARLIEST <= seconds <= _LATEST:
        seconds, nanoseconds = min(max(seconds, _EARLIEST), _LATEST), 0
    whole = datetime.fromtimestamp(seconds, UTC).replace(tzinfo=None).isoformat(timespec="seconds")
    return f"{whole}.{nanoseconds:09d}Z"


def _type(kind: Kind) -> str:
    # Devices and the like have no type of their own on this wire, and would not be listed without one.
    return {"folder": FOLDER, "link": LINK}.get(kind, FILE)


MOST_ENTRIES = 50_000
"""Entries of one answer, some 20 MB."""
MOST_BYTES = 32 << 20
"""Of their paths together: a session can nest folders endlessly."""
MOST_LINKS = 1000
"""Links of one answer that are followed, each with a request; the others have a type of their own."""


class FolderListing:
    """One listing. Stays on one file system or not; links are not followed."""

    def __init__(self, files: SessionFiles) -> None:
        self._files = files
        self._names = AccountNames(files)
        self._entries: list[dict[str, Any]] = []
        self._links = self._bytes = 0

    def of(self, path: str, depth: int) -> list[dict[str, Any]]:
        """Return the entries in a folder, each folder followed by its contents.

        Raises:
            InvalidArgument: it is not a folder, or there is too much in it.
            SessionFileError: it cannot be read.
        """
        place, found = located(self._files, path or ".")
        if found.kind != "folder":
            raise InvalidArgument(f"cannot list {shown(path)}: it is a {found.kind}, not a directory")
        # A stack of what is left to do, since folders may be nested deeper than Python can recurse.
        left = [(each, clean(place), 1) for each in reversed(with_attributes(self._files, place))]
        while left:
            file, above, level = left.pop()
            here = f"{above.rstrip('/')}/{file.name}"
            self._bytes += len(here) + len(file.target or "")
            if self._bytes > MOST_BYTES or len(self._entries) + len(left) >= MOST_ENTRIES:
                raise InvalidArgument(
                    f"cannot list {shown(path)}: there are more than {MOST_ENTRIES} entries, or their paths"
                    f" are longer than {MOST_BYTES >> 20} MiB together",
                    hint="list parts of it, or fewer levels",
                )
            self._add(here, file)
            if file.kind == "folder" and level < depth:
                left += [(each, here, level + 1) for each in reversed(self._inside(here))]
        return self._entries

    def _inside(self, folder: str) -> list[SessionFile]:
        try:
            return with_attributes(self._files, folder)
        except SessionFileNotFound:  # it was removed meanwhile
            return []

    def _add(self, path: str, file: SessionFile) -> None:
        kind = None
        if file.kind == "link" and self._links < MOST_LINKS:
            self._links += 1
            kind = led_to(self._files, path)
        self._entries.append(entry(path, file, self._names, kind))


def described(files: SessionFiles, path: str) -> dict[str, Any]:
    """Return the entry of one file, a link itself.

    Raises:
        SessionFileError: there is nothing, or it may not be looked at.
    """
    place, found = located(files, path or ".", follow=False, attributes=True)
    kind = led_to(files, place) if found.kind == "link" else None
    return entry(clean(place), found, AccountNames(files), kind)


def led_to(files: SessionFiles, path: str) -> Kind | None:
    """Return the kind of a link's target; None if it cannot be inspected."""
    try:
        return files.stat(path).kind
    except SessionFileError:
        return None


def is_folder(files: SessionFiles, path: str) -> bool:
    """Return whether a folder is there, or a link to one."""
    try:
        return files.stat(path).kind == "folder"
    except SessionFileNotFound:
        return False


def make_above(files: SessionFiles, path: str) -> None:
    """Make the folders above a path, as this wire does for every write."""
    above = posixpath.dirname(path)
    if above not in ("", "/", "~"):
        files.make_folder(above, parents=True)


WirePath = Annotated[str, Field(min_length=1, max_length=4096, pattern=TEXT)]
FolderPath = Annotated[str, Field(max_length=4096, pattern=TEXT)]
"""Where an empty path does no harm."""


class StatRequest(WireBody):
    """A file or folder to describe."""

    path: FolderPath = ""


class PathRequest(WireBody):
    """A folder to be made, or a file or folder to be removed."""

    path: WirePath


class RenameRequest(WireBody):
    """A file or folder, and its new path."""

    source: WirePath
    destination: WirePath


class ListRequest(WireBody):
    """A folder to be listed, with `depth` levels; 0 counts as 1."""

    path: FolderPath = ""
    depth: Annotated[int, Field(ge=0, lt=2**32)] = 1


class WatchRequest(WireBody):
    """A folder to be watched.

    The permission for network mounts is implied: they are watched like others.
    """

    path: FolderPath = ""
    recursive: bool = False
    include_entry: bool = False


class WatcherRequest(WireBody):
    """A watcher that is polled."""

    watcher_id: Annotated[str, Field(max_length=100)]


router = wire_router("e2b.folders", prefix="/filesystem.Filesystem")


@router.post("/Stat")
async def look_at(who: From, body: StatRequest) -> dict[str, Any]:
    """Return the entry at a path, a link itself."""
    return await who.in_session(
        who.sandbox, lambda found: {"entry": described(who.files(found, who.user), body.path)}
    )


@router.post("/ListDir")
async def list_folder(who: From, body: ListRequest) -> dict[str, Any]:
    """Return the entries of a folder and its subfolders."""

    def work(found: Session) -> dict[str, Any]:
        return {"entries": FolderListing(who.files(found, who.user)).of(body.path, body.depth)}

    return await who.in_session(who.sandbox, work)


@router.post("/MakeDir")
async def make_folder(who: From, body: PathRequest) -> JSONResponse:
    """Make a folder, and those above it."""

    def work(found: Session) -> dict[str, Any] | None:
        place = who.files(found, who.user)
        if is_folder(place, body.path):
            return None
        place.make_folder(body.path, parents=True)
        return {"entry": described(place, body.path)}

    made = await who.in_session(who.sandbox, work)
    if made is None:  # clients take just this code for an answer, and not for an error
        told = f"cannot make the directory {shown(body.path)}: it exists already"
        return JSONResponse({"code": "already_exists", "message": told}, 409)
    return JSONResponse(made)


@router.post("/Move")
async def move(who: From, body: RenameRequest) -> dict[str, Any]:
    """Move a file or folder to a new path; the folders above it are made."""

    def work(found: Session) -> dict[str, Any]:
        place = who.files(found, who.user)
        place.stat(body.source, follow=False)  # before a folder is made for nothing
        make_above(place, body.destination)
        place.move(body.source, body.destination)
        return {"entry": described(place, body.destination)}

    return await who.in_session(who.sandbox, work)


@router.post("/Remove")
async def remove(who: From, body: PathRequest) -> dict[str, Any]:
    """Remove a file, or a folder with all its contents; a missing path is not an error."""

    def work(found: Session) -> dict[str, Any]:
        who.files(found, who.user).remove(body.path, recursive=True, missing_ok=True)
        return {}

    return await who.in_session(who.sandbox, work)


daemon_router = wire_router("e2b.daemon")


@daemon_router.get("/health", status_code=204)
async def health(who: From) -> Response:
    """Report whether the sandbox runs. A paused one stays paused: clients ask this again and again."""

    def look(hf: Holdfast) -> None:
        try:
            found = hf.session(who.sandbox)
            state = "gone" if ended(found.row) else found.state
        except SessionNotFound:
            state = "gone"
        if state != "running":
            raise SandboxUnavailable(f"cannot reach the sandbox: {who.sandbox} was not found: it is {state}")

    await who.brief(look)
    return Response(status_code=204)


@daemon_router.get("/envs")
async def envs(who: From) -> dict[str, str]:
    """Return the variables that the sandbox was made with."""

    def work(found: Session) -> dict[str, str]:
        facts = SandboxFacts.of(found.row)
        return {} if facts is None else facts.env

    return await who.in_session(who.sandbox, work)


@daemon_router.post("/files/compose")
async def compose() -> None:
    """Refuse to join files."""
    raise NotOffered("cannot join files here: sessions do that with a command", hint="run `cat a b > c`")
