"""Archives from outside, read without more memory than their contents need: the one reader of them.

An archive claims the length of its headers, holes in its files, and to be small once unpacked. Nothing is
reserved, kept or unpacked on the word of such a claim. Which names are good is for the callers to judge: this
knows neither paths nor what becomes of the contents.
"""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import tarfile
import zlib
from collections.abc import Callable, Iterator
from typing import IO, TYPE_CHECKING, BinaryIO, cast

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

MOST_HEADER = 1 << 20
"""Bytes of one header with its extensions: names of 4096 bytes, and attributes of 64 KiB."""
MOST_REMEMBERED = 100_000
"""Members of an archive in which they are found by name."""
MOST_SHARED = 100
"""Values that all later members share (global pax headers)."""
MOST_GROWTH = 16 << 30
"""Bytes that an input may become beyond those that were sent, by being unpacked or by holes."""
_MOST_MEMORY = 128 << 20
"""Of a decompressor; `xz -9` needs 65 MiB, and others could ask for gigabytes."""
_PIECE = 1 << 16


class GrowsTooMuch(tarfile.ReadError):
    """An input expands to far more than was sent."""

    def __init__(self) -> None:
        super().__init__(f"it grows by more than {MOST_GROWTH >> 30} GiB when unpacked")


class BoundedTar:
    """The members of an archive, one after the other.

    Args:
        file: is read forward only, except as `remembers` says.
        most_header: bytes of a header.
        remembers: whether members are found by name as well; only in files that can be sought in.
        seeks: whether contents are passed over by seeking.
    """

    def __init__(
        self, file: IO[bytes], *, most_header: int = MOST_HEADER, remembers: bool = False, seeks: bool = False
    ) -> None:
        self._file = _Bounded(file, seeks=seeks or remembers)
        self._most, self._remembers = most_header, remembers
        self._tar: tarfile.TarFile | None = None

    def __iter__(self) -> Iterator[tarfile.TarInfo]:
        """Yield the members.

        Raises:
            TarError: it is no archive, or has a header that is too long.
            OSError: the file cannot be read.
        """
        while (member := self._next()) is not None:
            yield member

    def content(self, member: tarfile.TarInfo) -> IO[bytes] | None:
        """Return the content of a member before the next is requested; None if it has no content."""
        assert self._tar is not None
        return None if member.islnk() or member.issym() else self._tar.extractfile(member)

    def remember(self) -> None:
        """Read all headers, so that members are found by name.

        Raises:
            TarError: it is no archive, or has a header that is too long, or too many members.
            OSError: the file cannot be read.
        """
        if any(number >= MOST_REMEMBERED for number, _ in enumerate(self)):
            raise tarfile.ReadError("it has too many members")

    def named(self, name: str) -> IO[bytes] | None:
        """Return the content of a remembered member, or of the target of a link.

        Raises:
            KeyError: there is none of that name.
            TarError: it is a link to itself.
        """
        assert self._tar is not None
        try:
            return self._tar.extractfile(name)
        except RecursionError:
            raise tarfile.ReadError(f"{name[:100]!r} is a link to itself") from None

    def _next(self) -> tarfile.TarInfo | None:
        self._file.left = self._most
        try:
            if self._tar is None:
                file = cast("BinaryIO", self._file)
                self._tar = tarfile.open(  # noqa: SIM115 - there is nothing to close
                    fileobj=file, mode="r:", encoding="utf-8", errors="surrogateescape"
                )
            member = self._tar.next()
        except (ValueError, OverflowError, RecursionError, IndexError) as error:
            raise tarfile.ReadError(f"a header is not valid ({type(error).__name__})") from error
        finally:
            self._file.left = None
        shared = self._tar.pax_headers
        if len(shared) > MOST_SHARED or sum(len(str(each)) for each in shared.values()) > self._most:
            raise tarfile.ReadError("too many values apply to all members")
        if not self._remembers:
            self._tar.members = []  # type: ignore[attr-defined]  # it would keep all of them
        return member


class _Bounded:
    """A file as `tarfile` reads it, which reads as many bytes as a header claims to have."""

    def __init__(self, file: IO[bytes], *, seeks: bool) -> None:
        self._file, self._seeks = file, seeks
        self._at = 0
        self.left: int | None = None
        """Bytes that the present header can still have; None while contents are read."""

    def seekable(self) -> bool:
        """Return whether earlier positions can be reached."""
        return self._seeks

    def tell(self) -> int:
        """Return the position."""
        return self._at

    def seek(self, place: int) -> None:
        """Go to a position; a stream only goes forward."""
        if self._seeks:
            self._file.seek(place)
            self._at = place
            return
        if place < self._at:
            raise tarfile.StreamError("cannot go back in a stream")
        while self._at < place:
            data = self._file.read(min(_PIECE, place - self._at))
            if not data:
                return
            self._at += len(data)

    def read(self, size: int) -> bytes:
        """Read that many bytes, fewer only at the end.

        Raises:
            HeaderError: a header has more than it may.
        """
        if self.left is not None:
            self.left -= size
            if size < 0 or self.left < 0:
                raise tarfile.HeaderError("a header is too long")
        parts, missing = [], size
        while missing > 0:
            data = self._file.read(missing)
            if not data:
                break
            parts.append(data)
            missing -= len(data)
        self._at += size - missing
        return b"".join(parts)


class PlainStream:
    """A stream without its compression; an uncompressed stream passes through."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._sent = _Sent(stream)
        source = io.BufferedReader(self._sent, _PIECE)
        start = source.peek(6)[:6]
        self.packed = is_packed(start)
        self._plain = opened(cast("IO[bytes]", source), start)
        self._made = 0

    def read(self, size: int = -1) -> bytes:
        """Read at most `size` bytes.

        Raises:
            GrowsTooMuch: it becomes far more than was sent.
            ReadError: it is not whole.
            OSError: the stream cannot be read.
        """
        try:
            data = self._plain.read(size)
        except (EOFError, zlib.error, lzma.LZMAError, gzip.BadGzipFile) as error:
            raise tarfile.ReadError(str(error)) from error
        except OSError as error:
            if error.errno is not None:
                raise
            raise tarfile.ReadError(str(error)) from error  # bz2 has no error of its own
        except Exception as error:
            if type(error).__name__ != "ZstdError":  # importing the package would take longer than most need
                raise
            raise tarfile.ReadError(str(error)) from error
        self._made += len(data)
        self.check(self._made)
        return data

    def check(self, made: int) -> None:
        """Check how far the input has expanded.

        Raises:
            GrowsTooMuch: it is far more.
        """
        if made - self._sent.count > MOST_GROWTH:
            raise GrowsTooMuch


class _Sent(io.RawIOBase):
    """A stream that counts the bytes read."""

    def __init__(self, stream: IO[bytes]) -> None:
        super().__init__()
        self._stream = stream
        self.count = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        view = memoryview(buffer)
        data = self._stream.read(len(view))
        view[: len(data)] = data
        self.count += len(data)
        return len(data)


class _Xz(io.RawIOBase):
    """A stream of xz, with a bound on the memory that it may ask for, which `lzma.open` lacks."""

    def __init__(self, file: IO[bytes]) -> None:
        super().__init__()
        self._file = file
        self._opening = self._new()

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        view = memoryview(buffer)
        while True:
            if self._opening.eof:
                rest = (self._opening.unused_data or self._file.read(_PIECE)).lstrip(b"\0")
                if not rest:
                    return 0
                self._opening = self._new()
                data = self._opening.decompress(rest, len(view))
            else:
                packed = self._file.read(_PIECE) if self._opening.needs_input else b""
                if self._opening.needs_input and not packed:
                    raise EOFError("it ends too early")
                data = self._opening.decompress(packed, len(view))
            if data:
                view[: len(data)] = data
                return len(data)

    @staticmethod
    def _new() -> lzma.LZMADecompressor:
        return lzma.LZMADecompressor(memlimit=_MOST_MEMORY)


def _zstd(file: IO[bytes]) -> IO[bytes]:
    import zstandard

    opening = zstandard.ZstdDecompressor(max_window_size=_MOST_MEMORY)
    return cast("IO[bytes]", opening.stream_reader(file, read_across_frames=True))


def _gzip(file: IO[bytes]) -> IO[bytes]:
    return cast("IO[bytes]", gzip.GzipFile(fileobj=file, mode="rb"))


def _bzip2(file: IO[bytes]) -> IO[bytes]:
    return cast("IO[bytes]", bz2.BZ2File(file))


def _xz(file: IO[bytes]) -> IO[bytes]:
    return cast("IO[bytes]", io.BufferedReader(_Xz(file), _PIECE))


_OPENERS: tuple[tuple[bytes, Callable[[IO[bytes]], IO[bytes]]], ...] = (
    (b"\x1f\x8b", _gzip),
    (b"\x28\xb5\x2f\xfd", _zstd),
    (b"BZh", _bzip2),
    (b"\xfd7zXZ", _xz),
)
"""The first bytes of compressed files, and their readers."""


def is_packed(start: bytes) -> bool:
    """Return whether a file that begins like this is compressed."""
    return any(start.startswith(magic) for magic, _ in _OPENERS)


def opened(file: IO[bytes], start: bytes) -> IO[bytes]:
    """Return a reader of the file's uncompressed content; the file itself if it is not compressed."""
    opener = next((each for magic, each in _OPENERS if start.startswith(magic)), None)
    return opener(file) if opener else file
