"""The files of a session over a URL, read and written in parts of any size."""

from __future__ import annotations

import base64
import builtins
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Callable, Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import IO, TYPE_CHECKING, Self

from holdfast.errors import SessionFileNotFound
from holdfast.runtime.client import client_values, http_call
from holdfast.runtime.client.aio import async_local
from holdfast.runtime.client.aio.async_transport import AsyncTransport
from holdfast.runtime.client.channel_calls import WatchCall
from holdfast.runtime.client.client_errors import missing
from holdfast.runtime.client.http_call import HttpCall, place
from holdfast.runtime.files.copied import Copied, unreported
from holdfast.runtime.files.file_tree import WatchedChange
from holdfast.runtime.files.session_file import FoundFile, SessionFile
from holdfast.runtime.guest_rpc.patience import Patience

_OVER = object()


class AsyncFileWatch:
    """Changes in one folder, or of one file, as `FileWatch` has them. To be closed.

    It has begun when it exists. It ends when what is watched is removed, or given another name; `ended` is
    true then. If the connection to the server is lost, the iteration raises `ServerUnavailable`, because
    changes may have been missed.
    """

    def __init__(self, call: WatchCall, messages: AsyncGenerator[None]) -> None:
        self._call, self._messages = call, messages

    @property
    def path(self) -> str:
        """The absolute path of what is watched, without links."""
        return self._call.path or ""

    @property
    def ended(self) -> bool:
        """True if what is watched is gone."""
        return bool(self._call.result)

    async def __aiter__(self) -> AsyncIterator[WatchedChange]:
        """Yield changes until what is watched is gone, or the time is over."""
        while True:
            while self._call.found:
                yield self._call.found.popleft()
            if self._call.ended or await anext(self._messages, _OVER) is _OVER:
                return

    async def close(self) -> None:
        """End it."""
        await self._messages.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        await self.close()


async def begun(call: WatchCall, messages: AsyncGenerator[None]) -> AsyncFileWatch:
    """Return the watch once the server has begun it."""
    while call.path is None and await anext(messages, _OVER) is not _OVER:
        pass
    return AsyncFileWatch(call, messages)


_PART = 1 << 20
MOST_OF_GROUP = 4 << 20
"""Bytes of small files in one request; a larger file has one of its own."""
MOST_IN_GROUP = 500


class AsyncFiles:
    """The files of one session, as `SessionFiles` are."""

    def __init__(self, transport: AsyncTransport, session: str, user: str | None = None) -> None:
        self._transport, self._session, self._user = transport, session, user

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> None:
            raise missing(name) if not name.startswith("_") else AttributeError(name)

    def as_user(self, name: str) -> AsyncFiles:
        """Return the files as this user of the session can read and write them."""
        return AsyncFiles(self._transport, self._session, name)

    async def stat(self, path: str, *, follow: bool = True) -> SessionFile:
        """Return what is at a path; without `follow`, a link itself."""
        return client_values.session_file(await self._ask("GET", "stat", path=path, follow=follow))

    async def list(self, path: str = ".") -> list[SessionFile]:
        """Return what is in a folder, by name."""
        told = client_values.tables(await self._ask("GET", "list", path=path))
        return [client_values.session_file(each) for each in told]

    async def exists(self, path: str, *, follow: bool = True) -> bool:
        """Check whether there is anything at a path; with `follow` false, a link to nothing counts."""
        try:
            await self.stat(path, follow=follow)
        except SessionFileNotFound:
            return False
        return True

    async def find(
        self, path: str = ".", *, name: str = "*", containing: str | None = None, most: int = 1000
    ) -> builtins.list[FoundFile]:
        """Return the files below a folder by their names, or lines of them by a text, in order."""
        told = await self._ask("GET", "find", path=path, name=name, containing=containing, most=most)
        return [client_values.found_file(each) for each in client_values.tables(told)]

    async def chmod(self, path: str, mode: int) -> None:
        """Change the permissions of a file or folder, such as 0o755; a link is followed."""
        body = {"path": path, "mode": _octal(mode)}
        await self._transport.ask(HttpCall("POST", self._place("mode"), {"user": self._user}, body))

    async def replace(self, path: str, old: str, new: str) -> int:
        """Replace a text wherever it is in a file, and return how often it was there."""
        body = {"path": path, "old": old, "new": new}
        call = HttpCall("POST", self._place("replace"), {"user": self._user}, body)
        return int(client_values.table(await self._transport.ask(call))["count"])

    async def write_many(self, files: Mapping[str, bytes | str]) -> int:
        """Write several files in their order, in as few requests as their size allows; return how many."""
        group: builtins.list[dict[str, str]] = []
        size = 0
        for path, data in files.items():
            content = data.encode() if isinstance(data, str) else bytes(data)
            if group and (size + len(content) > MOST_OF_GROUP or len(group) == MOST_IN_GROUP):
                await self._write_group(group)
                group, size = [], 0
            if len(content) > MOST_OF_GROUP:
                await self.write(path, content)
                continue
            group.append({"path": path, "base64": base64.b64encode(content).decode()})
            size += len(content)
        if group:
            await self._write_group(group)
        return len(files)

    async def _write_group(self, group: builtins.list[dict[str, str]]) -> None:
        body = {"files": group}
        await self._transport.ask(HttpCall("PUT", self._place("many"), {"user": self._user}, body))

    async def read(self, path: str, offset: int = 0, length: int | None = None) -> bytes:
        """Return a file, or `length` bytes of it from `offset`."""
        if length == 0 or (offset and offset >= (await self.stat(path)).size):
            return b""
        found = bytearray()
        async for part in self.parts(path, offset, length):
            found += part
        return bytes(found)

    async def parts(self, path: str, offset: int = 0, length: int | None = None) -> AsyncIterator[bytes]:
        """Yield a file in parts as they come, of any size together; `offset` and `length` as for `read`."""
        end = "" if length is None else str(offset + length - 1)
        headers = {"Range": f"bytes={offset}-{end}"} if offset or length is not None else {}
        async with self._transport.bytes_of(self._call("GET", "content", path=path), headers) as body:
            async for part in body:
                yield part

    async def write(self, path: str, data: bytes | str, *, mode: int | None = None) -> None:
        """Write a file: readers see the old content or the new one, never a part."""
        content = data.encode() if isinstance(data, str) else bytes(data)
        await self._transport.send(self._call("PUT", "content", path=path, mode=_octal(mode)), content)

    async def write_parts(self, path: str, parts: AsyncIterable[bytes], *, mode: int | None = None) -> int:
        """Write a file from parts as they come, of any size together; return its size."""
        call = self._call("PUT", "content", path=path, mode=_octal(mode))
        return int(client_values.table(await self._transport.send(call, parts))["size"])

    async def make_folder(self, path: str, *, parents: bool = False) -> None:
        """Make a folder, with `parents` also those above it; one that exists stays as it is."""
        body = {"path": path, "parents": parents}
        await self._transport.ask(HttpCall("POST", self._place("folders"), {"user": self._user}, body))

    async def move(self, path: str, to: str) -> None:
        """Rename a file or folder on the same file system; an existing file of the new name is replaced."""
        body = {"path": path, "to": to}
        await self._transport.ask(HttpCall("POST", self._place("move"), {"user": self._user}, body))

    async def remove(self, path: str, *, recursive: bool = False, missing_ok: bool = False) -> None:
        """Remove a file or an empty folder; with `recursive` a folder and all that is in it."""
        params = {"path": path, "recursive": recursive, "missing_ok": missing_ok, "user": self._user}
        await self._transport.ask(HttpCall("DELETE", self._place(), params))

    async def address(self, path: str, *, operation: str = "read", seconds: int = 3600) -> str:
        """Return an address by which anyone reads (GET) or writes (POST) one file, for a number of seconds.

        Only over a URL. The path is absolute; the holder acts as the user whose files these are.
        """
        body = {"path": path, "operation": operation, "seconds": seconds}
        call = HttpCall("POST", self._place("address"), {"user": self._user}, body)
        return str(client_values.table(await self._transport.ask(call))["url"])

    async def write_tar(self, path: str, stream: IO[bytes]) -> None:
        """Write a file, or a folder with all that is in it, to a stream as tar."""
        async with self._transport.bytes_of(self._call("GET", "tree", path=path), {}) as body:
            async for part in body:
                stream.write(part)

    async def read_tar(self, stream: IO[bytes], to: str) -> Copied:
        """Unpack a tar stream, compressed or not, into a folder."""
        told = await self._transport.send(self._call("PUT", "tree", path=to), _read(stream))
        return client_values.copied(told)

    async def watch(
        self,
        path: str = ".",
        *,
        recursive: bool = False,
        timeout: float | None = None,
        patience: Patience | None = None,
    ) -> AsyncFileWatch:
        """Watch a folder or a file; iterate over the result, and close it. As `SessionFiles.watch`."""
        until = patience or Patience()
        until.begin()
        if timeout is not None:
            until.limit(timeout)
        args = {"path": path, "recursive": recursive, "user": self._user}
        call = WatchCall(self._session, "watch", args, patience=until)
        return await begun(call, self._transport.heard(call))

    async def download(
        self, path: str, to: str | Path, *, report: Callable[[Copied], None] = unreported
    ) -> Copied:
        """Copy a file or a folder of the session to this machine, under the name `to`."""
        from holdfast.runtime.files.tar_trees import UnpackTree

        folder = (await self.stat(path)).kind == "folder"

        def unpack(stream: IO[bytes]) -> Copied:
            copy = UnpackTree(stream, report)
            return copy.tree(Path(to)) if folder else copy.file(Path(to))

        call = self._call("GET", "tree", path=path, account=True)
        async with self._transport.bytes_of(call, {}) as body:
            return await async_local.unpacked(body, unpack)

    async def upload(
        self, source: str | Path, to: str, *, report: Callable[[Copied], None] = unreported
    ) -> Copied:
        """Copy a file or a folder of this machine into the session, under the name `to`."""
        from holdfast.runtime.files.tar_trees import PackTree

        source, pack = Path(source), PackTree(report)
        above, name = http_call.parted(to, folder=source.is_dir())
        await self.stat(above)  # it is not made on the way
        parts = pack.tree(source) if source.is_dir() else pack.file(source, name)
        call = self._call("PUT", "tree", path=to if source.is_dir() else above)
        made = client_values.copied(await self._transport.send(call, _each(parts)))
        made.left_out.update(pack.made.left_out)
        made.changed += pack.made.changed
        return made

    async def _ask(self, method: str, what: str, **params: object) -> object:
        return await self._transport.ask(self._call(method, what, **params))

    def _call(self, method: str, what: str, **params: object) -> HttpCall:
        return HttpCall(method, self._place(what), {**params, "user": self._user})

    def _place(self, *what: str) -> str:
        return place("sessions", self._session, "files", *what)


async def _read(stream: IO[bytes]) -> AsyncIterator[bytes]:
    while part := stream.read(_PART):
        yield part


async def _each(parts: Iterable[bytes]) -> AsyncIterator[bytes]:
    for part in parts:
        yield part


def _octal(mode: int | None) -> str | None:
    return None if mode is None else f"{mode:04o}"
