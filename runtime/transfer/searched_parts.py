"""The parts of a snapshot in a search for secrets: files (whole, or the parts new since an earlier one), and
outgoing layers, whose findings are remembered.

The owners of memory in process images, according to CRIU's own tables, are used only to name a place.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import struct
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.base import private_files
from holdfast.base.text import plain
from holdfast.errors import StoreError
from holdfast.runtime.scrubbing import secret_search
from holdfast.runtime.scrubbing.members import Members
from holdfast.runtime.scrubbing.rule import LONGEST, Matcher
from holdfast.runtime.scrubbing.secret_search import MOST_MATCHES, Search, SecretFinding
from holdfast.snapshots.bundle.image_layers import Hashed
from holdfast.snapshots.record import StateRecord

if TYPE_CHECKING:
    from holdfast.snapshots.bundle.earlier_pages import PageRange


_BLOCK = 1 << 20
FILE = "searched.json"
_SALT = re.compile(r"[0-9a-f]{32}")
CREDENTIALS = "credential file"
MOST_REMEMBERED = 2000
FORMAT = 1
"""Part of the identity of rules: a change of the built-in searches makes all layers be searched again."""
_TABLE = re.compile(r"images/((?:earlier-\d-)?)pagemap-(shmem-)?(\d{1,10})\.img")
_PAGES = re.compile(r"images/(?:earlier-\d-)?pages-(\d{1,10})\.img")
_HEAD = struct.Struct("<III")
_FIRST_FIELD = 0x08
_KINDS = (
    ("images/ghost-file-", "files that were open and had no name"),
    ("images/pipes-data", "pipes"),
    ("images/fifo-data", "pipes"),
    ("images/sk-queues", "sockets"),
    ("images/tcp-stream-", "connections"),
    ("images/tty-", "terminals"),
    ("images/beyond-", "terminals"),
    ("record.json.gz", "the record of its processes"),
    ("baseline.json.gz", "the record of its files"),
    ("apart.", "files that its image cannot hold"),
)


def search_file(path: Path, search: Search, members: Members | None = None) -> None:
    """Feed a file to the search, skipping holes of a sparse one; `members` follows an archive.

    Raises:
        StoreError: it cannot be read.
    """
    try:
        with path.open("rb", buffering=0) as file:
            size = os.fstat(file.fileno()).st_size
            at = 0
            while at < size:
                start = at if members is not None else _data_after(file.fileno(), at, size)
                if start > at:
                    search.skip(start - at)
                file.seek(start)
                data = file.read(_BLOCK)
                if not data:
                    break
                if members is not None:
                    members.feed(data)
                search.feed(data)
                at = start + len(data)
    except OSError as error:
        raise _unreadable(path, error) from error
    search.end()


def search_new(path: Path, search: Search, ranges: Sequence[PageRange]) -> None:
    """Search the new ranges of a file, with enough context around each for a match.

    Raises:
        StoreError: it cannot be read.
    """
    try:
        with path.open("rb", buffering=0) as file:
            for first, last in stretches(ranges):
                for at in range(first, last, _BLOCK):
                    end = min(last, at + _BLOCK)
                    begin = max(0, at - LONGEST)
                    data = os.pread(file.fileno(), end + LONGEST - begin, begin)
                    search.within(data, at - begin, end - begin, alone=at == first)
    except OSError as error:
        raise _unreadable(path, error) from error


def stretches(ranges: Sequence[PageRange]) -> Iterator[tuple[int, int]]:
    """Yield the begin and end of new ranges. Ranges close together become one. Pure."""
    at, first, last = 0, 0, 0
    for one in ranges:
        if one.name is None:
            if last and at - last > 2 * LONGEST:
                yield first, last
                last = 0
            first, last = (first if last else at), at + one.size
        at += one.size
    if last:
        yield first, last


def _unreadable(path: Path, error: OSError) -> StoreError:
    return StoreError(f"cannot read {path}: {error.strerror or error}")


def _data_after(descriptor: int, at: int, size: int) -> int:
    """Return the offset of the next bytes that are not a hole (lseek(2)); the end if only a hole follows."""
    try:
        return min(size, os.lseek(descriptor, at, os.SEEK_DATA))
    except OSError:
        return size


class SearchedLayers:
    """The searched layers of one home, for one set of rules.

    Args:
        matcher: finds the secrets.
        files: an expression for paths that hold credentials, or None.
        path: the file of the cache.
        besides: layers that need no search.
    """

    def __init__(self, matcher: Matcher, files: Any, path: Path, besides: Sequence[str] = ()) -> None:
        self._matcher = matcher
        self._files = files
        self._path = path
        self._besides = frozenset(besides)
        self._all: dict[str, Any] = {}
        with suppress(OSError, ValueError):
            value = json.loads(path.read_text())
            self._all = value if isinstance(value, dict) else {}
        salt = self._all.get("salt")
        self._salt = salt if isinstance(salt, str) and _SALT.fullmatch(salt) else os.urandom(16).hex()
        self._all["salt"] = self._salt
        self._key = self._named(matcher, files)

    def found(self, diff_id: str) -> list[SecretFinding] | None:
        """Return the findings in a layer; None if it has not been searched."""
        if diff_id in self._besides:
            return []
        value = self._all.get(f"{self._key} {diff_id}")
        try:
            return None if value is None else [SecretFinding(*one) for one in value]
        except TypeError:
            return None

    def missing(self, diff_ids: Sequence[str]) -> list[str]:
        """Return the layers that have not been searched."""
        return [each for each in dict.fromkeys(diff_ids) if self.found(each) is None]

    def passing(self, layer: Hashed) -> Iterator[bytes]:
        """Yield a layer unchanged, searching it on the way."""
        if layer.wanted in self._besides:
            yield from layer
            return
        credentials: Counter[tuple[str, str]] = Counter()

        def met(path: str) -> None:
            if len(credentials) < MOST_MATCHES and self._files.fullmatch(
                path.encode("utf-8", "surrogateescape")
            ):
                credentials[CREDENTIALS, path] += 1

        members = Members(met) if self._files else Members()
        search = Search(self._matcher, members.name_at)
        for piece in layer:
            members.feed(piece)
            search.feed(piece)
            yield piece
        search.end()
        found = secret_search.findings(search.found, "layer", self._matcher, search.more)
        files = secret_search.findings(credentials, "layer", self._matcher)
        self._remember(layer.digest, [*found, *files])

    def named(self, paths: Iterable[str]) -> list[SecretFinding]:
        """Return the paths that hold credentials, by their names."""
        credentials: Counter[tuple[str, str]] = Counter()
        for path in paths if self._files else ():
            if len(credentials) < MOST_MATCHES and self._files.fullmatch(
                path.encode("utf-8", "surrogateescape")
            ):
                credentials[CREDENTIALS, path] += 1
        return secret_search.findings(credentials, "layer", self._matcher)

    def read(self, layer: Hashed) -> None:
        """Search a layer that is not sent."""
        for _ in self.passing(layer):
            pass

    def _remember(self, diff_id: str, found: Sequence[SecretFinding]) -> None:
        listed = [[one.rule, one.count, one.where, one.kind, one.more] for one in found]
        self._all[f"{self._key} {diff_id}"] = listed
        for old in list(self._all)[1 : 1 + max(0, len(self._all) - MOST_REMEMBERED)]:
            del self._all[old]
        with suppress(OSError):
            self._path.parent.mkdir(mode=0o700, exist_ok=True)
            private_files.replace(self._path, json.dumps(self._all), durable=False)

    def _named(self, matcher: Matcher, files: Any) -> str:
        """Return the name of a set of rules: values can be among them, so guessing is made slow."""
        rules = [[rule.name, rule.pattern, rule.distinct] for rule in matcher.rules]
        text = json.dumps([FORMAT, rules, list(matcher.allowed), getattr(files, "pattern", b"").__repr__()])
        return hashlib.scrypt(
            text.encode(), salt=bytes.fromhex(self._salt), n=1 << 14, r=8, p=1, dklen=12
        ).hex()


def memory_owners(folder: Path, names: Sequence[str], known: StateRecord | None) -> dict[str, str]:
    """Return the files with pages of memory, and their owners in words."""
    commands = {one.pid: one.name for one in known.tree.processes} if known is not None else {}
    found: dict[str, str] = {}
    for name in names:
        if (table := _TABLE.fullmatch(name)) and (number := _pages(folder / name)) is not None:
            pid = int(table[3])
            process = f"memory of {plain(commands.get(pid) or 'a process', 20)} (pid {pid})"
            owner = "shared memory of programs" if table[2] else process
            found[f"images/{table[1]}pages-{number}.img"] = owner
    return found


def memory_place(name: str, owned: dict[str, str]) -> tuple[str, str]:
    """Return the place of a finding in a file of a snapshot, and the kind of that file."""
    if name in owned or _PAGES.fullmatch(name):
        return owned.get(name, "memory of programs"), "memory"
    for begin, words in _KINDS:
        if name.startswith(begin):
            return words, "images" if name.startswith("images/") else "record"
    return "tables of its processes", "images"


def _pages(path: Path) -> int | None:
    data = b""
    with suppress(OSError), path.open("rb") as file:
        data = file.read(64)
    if len(data) < _HEAD.size:
        return None
    _, _, size = _HEAD.unpack_from(data)
    message = data[_HEAD.size : _HEAD.size + min(size, 20)]
    if not message or message[0] != _FIRST_FIELD:
        return None
    number = 0
    for shift, byte in enumerate(message[1:6]):
        number |= (byte & 0x7F) << 7 * shift
        if byte < 0x80:
            return number
    return None
