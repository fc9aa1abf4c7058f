"""The files of a session over a URL, read and written in parts of any size."""

from __future__ import annotations

import base64
import builtins
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Callable, Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

from holdfast.errors import SessionFileNotFound
from holdfast.runtime.api import session_files
from holdfast.runtime.api.session_files import SessionFiles
from holdfast.runtime.client import client_values, http_call
from holdfast.runtime.client.aio import async_local
from holdfast.runtime.client.aio.async_handle import AsyncSessionPart, requesting
from holdfast.runtime.client.aio.async_transport import AsyncTransport
from holdfast.runtime.client.bound_methods import Route, asking, each, like, nothing
from holdfast.runtime.client.channel_calls import WatchCall
from holdfast.runtime.files.copied import Copied, unreported
from holdfast.runtime.files.file_tree import WatchedChange
from holdfast.runtime.guest_rpc.patience import Patience

_OVER = object()


class AsyncFileWatch:
    """Changes in one folder, or of one file, as `FileWatch` has them. To be closed.

    It has begun when it exists. It ends when the watched file or folder is removed or renamed; `ended` is
    true then. If the connection to the server is lost, the iteration raises `ServerUnavailable`, because
    changes can have been missed.
    """

    def __init__(self, call: WatchCall, messages: AsyncGenerator[None]) -> None:
        self._call, self._messages = call, messages

    @property
    def path(self) -> str:
        """The absolute path of the watched folder or file, without links."""
        return self._call.path or ""

    @property
    def ended(self) -> bool:
        """True if the watched folder or file was removed."""
        return bool(self._call.result)

    async def __aiter__(self) -> AsyncIterator[WatchedChange]:
        """Yield changes until the watched folder or file is removed, or the time is over."""
        while True:
            while self._call.found:
                yield self._call.found.popleft()
            if self._call.ended or await anext(self._messages, _OVER) is _OVER:
                return

    async def close(self) -> None:
        """End the watch."""
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


class AsyncFiles(AsyncSessionPart):
    """The files of one session, as `SessionFiles` are."""

    def __init__(self, transport: AsyncTransport, session: str, user: str | None = None) -> None:
        super().__init__(transport, session, "files", always={"user": user})
        self._user = user

    @like(SessionFiles.as_user)
    def as_user(self, name: str) -> AsyncFiles:
        return AsyncFiles(self._transport, self._session, name)

    stat = requesting(SessionFiles.stat, Route("GET", "stat"), client_values.session_file)
    list = requesting(SessionFiles.list, Route("GET", "list"), each(client_values.session_file))
    find = requesting(SessionFiles.find, Route("GET", "find"), each(client_values.found_file))
    replace = requesting(SessionFiles.replace, Route("POST", "replace"), client_values.count)
    make_folder = requesting(SessionFiles.make_folder, Route("POST", "folders"), nothing)
    move = requesting(SessionFiles.move, Route("POST", "move"), nothing)
    remove = requesting(SessionFiles.remove, Route("DELETE"), nothing)

    @like(SessionFiles.exists)
    async def exists(self, path: str, *, follow: bool = True) -> bool:
        try:
            await self.stat(path, follow=follow)
        except SessionFileNotFound:
            return False
        return True

    @like(SessionFiles.chmod)
    async def chmod(self, path: str, mode: int) -> None:
        body = {"path": path, "mode": session_files.permissions(mode)}
        await self._ask("POST", "mode", body=body)

    @like(SessionFiles.write_many)
    async def write_many(self, files: Mapping[str, bytes | str]) -> int:
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
        await self._ask("PUT", "many", body={"files": group})

    @like(SessionFiles.read)
    async def read(self, path: str, offset: int = 0, length: int | None = None) -> bytes:
        if length == 0 or (offset and offset >= (await self.stat(path)).size):
            return b""
        found = bytearray()
        async for part in self.parts(path, offset, length):
            found += part
            if length is None and len(found) > session_files.MOST_IN_MEMORY:
                raise session_files.too_large(path, (await self.stat(path)).size)
        return bytes(found)

    async def parts(self, path: str, offset: int = 0, length: int | None = None) -> AsyncIterator[bytes]:
        """Yield a file in parts as they come, of any size together; `offset` and `length` as for `read`."""
        end = "" if length is None else str(offset + length - 1)
        headers = {"Range": f"bytes={offset}-{end}"} if offset or length is not None else {}
        async with self._transport.bytes_of(self._call("GET", "content", path=path), headers) as body:
            async for part in body:
                yield part

    @like(SessionFiles.write)
    async def write(self, path: str, data: bytes | str, *, mode: int | None = None) -> None:
        content = data.encode() if isinstance(data, str) else bytes(data)
        await self._written(path, content, mode)

    @like(SessionFiles.write_parts)
    async def write_parts(self, path: str, parts: AsyncIterable[bytes], *, mode: int | None = None) -> int:
        return await self._written(path, parts, mode)

    async def _written(self, path: str, content: AsyncIterable[bytes] | bytes, mode: int | None) -> int:
        bits = None if mode is None else session_files.permissions(mode)
        call = self._call("PUT", "content", path=path, mode=bits)
        return int(client_values.table(await self._transport.send(call, content))["size"])

    async def address(self, path: str, *, operation: str = "read", seconds: int = 3600) -> str:
        """Return an address by which anyone reads (GET) or writes (POST) one file, for a number of seconds.

        Only over a URL. The path is absolute; the holder acts as the user whose files these are.
        """
        body = {"path": path, "operation": operation, "seconds": seconds}
        return str(client_values.table(await self._ask("POST", "address", body=body))["url"])

    @like(SessionFiles.write_tar)
    async def write_tar(self, path: str, stream: IO[bytes]) -> Copied:
        from holdfast.runtime.files.tar_trees import UnpackTree

        call = self._call("GET", "tree", path=path, account=True)
        async with self._transport.bytes_of(call, {}) as body:
            return await async_local.unpacked(body, lambda tree: UnpackTree(tree).tar(stream))

    @like(SessionFiles.read_tar)
    async def read_tar(self, stream: IO[bytes], to: str) -> Copied:
        told = await self._transport.send(self._call("PUT", "tree", path=to), _read(stream))
        return client_values.copied(told)

    async def _watching(self, _verb: str, told: dict[str, Any]) -> AsyncFileWatch:
        until = told.pop("patience", None) or Patience()
        until.begin()
        if (timeout := told.pop("timeout", None)) is not None:
            until.limit(timeout)
        args = {"path": ".", **told, "user": self._user}
        call = WatchCall(self._session, "watch", args, patience=until)
        return await begun(call, self._transport.heard(call))

    watch = asking(SessionFiles.watch, _watching)

    @like(SessionFiles.download)
    async def download(
        self, path: str, to: str | Path, *, report: Callable[[Copied], None] = unreported
    ) -> Copied:
        from holdfast.runtime.files.tar_trees import UnpackTree

        folder = (await self.stat(path)).kind == "folder"

        def unpack(stream: IO[bytes]) -> Copied:
            copy = UnpackTree(stream, report)
            return copy.tree(Path(to)) if folder else copy.file(Path(to))

        call = self._call("GET", "tree", path=path, account=True)
        async with self._transport.bytes_of(call, {}) as body:
            return await async_local.unpacked(body, unpack)

    @like(SessionFiles.upload)
    async def upload(
        self, source: str | Path, to: str, *, report: Callable[[Copied], None] = unreported
    ) -> Copied:
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


async def _read(stream: IO[bytes]) -> AsyncIterator[bytes]:
    while part := stream.read(_PART):
        yield part


async def _each(parts: Iterable[bytes]) -> AsyncIterator[bytes]:
    for part in parts:
        yield part
