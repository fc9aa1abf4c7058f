"""Contents of files in both directions: any size, packed or not, with a token or a signed address.

Nothing of an upload is kept: the files of a multipart body are passed on while it arrives, one after the
other.
"""

from __future__ import annotations

import posixpath
import re
import tarfile
from collections import deque
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import IO, TYPE_CHECKING, Annotated, Any
from urllib.parse import quote

from fastapi import Header, Query
from isal import isal_zlib
from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header
from starlette.exceptions import HTTPException
from starlette.responses import Response, StreamingResponse

from holdfast.base.bounded_tar import PlainStream
from holdfast.errors import InvalidArgument, SessionFileError
from holdfast.runtime.api.session import Session
from holdfast.runtime.api.session_files import SessionFiles, located, write_with_attributes
from holdfast.runtime.e2b.filesystem_service import (
    attributes_of,
    clean,
    is_folder,
    make_above,
    shown,
    uploaded_entry,
)
from holdfast.runtime.e2b.sandbox_caller import From, SandboxCaller
from holdfast.runtime.e2b.sandbox_lives import SandboxFacts
from holdfast.runtime.guest.files.file_facts import LONGEST_ATTRIBUTES, MOST_ATTRIBUTES, checked_attributes
from holdfast.runtime.serve.call_threads import CallThreads
from holdfast.runtime.serve.models.file_models import FilePath
from holdfast.runtime.serve.routes import file_routes
from holdfast.runtime.serve.routes.api_router import wire_router
from holdfast.runtime.serve.streamed_bodies import BodyPipe

if TYPE_CHECKING:
    from python_multipart.multipart import MultipartCallbacks

FIELD = "file"
"""The name of the fields that are files; others are passed over."""
MOST_FILES = 10_000
LONGEST_HEAD = 16 << 10
"""Bytes of a header, which has the path of a file."""
_END = object()
_Event = dict[str, str] | bytes | object


@dataclass(frozen=True, slots=True)
class UploadedFile:
    """One file in transit. `filename` is the client's name for it, often a path; empty without one."""

    filename: str
    content: Iterator[bytes]


def boundary_of(content_type: str) -> bytes | None:
    """Return the boundary of a multipart body; None if it has another type.

    Raises:
        InvalidArgument: it does not say where its parts end.
    """
    kind, options = parse_options_header(content_type)
    if kind != b"multipart/form-data":
        return None
    if not options.get(b"boundary"):
        raise InvalidArgument("cannot read the files: the multipart body lacks a boundary")
    return options[b"boundary"]


def files_in(body: Iterable[bytes], boundary: bytes) -> Iterator[UploadedFile]:
    """Yield the files of a body.

    Raises:
        InvalidArgument: it is not such a body, is not whole, or has too many files.
    """
    events, count = _events(body, boundary), 0
    for event in events:
        assert isinstance(event, dict)
        content = _content(events)
        if event.get("name") == FIELD:
            count += 1
            if count > MOST_FILES:
                raise InvalidArgument(f"cannot read more than {MOST_FILES} files from one body")
            yield UploadedFile(event.get("filename", ""), content)
        deque(content, maxlen=0)  # what was not read


def _content(events: Iterator[_Event]) -> Iterator[bytes]:
    for event in events:
        if event is _END:
            return
        assert isinstance(event, bytes)
        yield event


def _events(body: Iterable[bytes], boundary: bytes) -> Iterator[_Event]:
    """Yield the head of each part, then its content, then its end."""
    found = _Found()
    try:
        parser = MultipartParser(boundary, found.callbacks(), max_header_size=LONGEST_HEAD)
        for data in body:
            parser.write(data)
            yield from found.taken()
            if found.whole:
                return
    except FormParserError as error:
        raise InvalidArgument(f"cannot read the files: the body is not a multipart form ({error})") from None
    raise InvalidArgument("cannot read the files: the rest of the body is missing")


@dataclass(slots=True)
class _Found:
    """The parser's callbacks, in order."""

    whole: bool = False
    _events: list[_Event] = field(default_factory=list)
    _name: bytes = b""
    _value: bytes = b""
    _head: dict[str, str] = field(default_factory=dict)

    def callbacks(self) -> MultipartCallbacks:
        return {
            "on_part_begin": self._begin,
            "on_header_field": self._field,
            "on_header_value": self._text,
            "on_header_end": self._header,
            "on_headers_finished": lambda: self._events.append(self._head),
            "on_part_data": lambda data, start, end: self._events.append(data[start:end]),
            "on_part_end": lambda: self._events.append(_END),
            "on_end": self._ended,
        }

    def taken(self) -> list[_Event]:
        events, self._events = self._events, []
        return events

    def _begin(self) -> None:
        self._head, self._name, self._value = {}, b"", b""

    def _field(self, data: bytes, start: int, end: int) -> None:
        self._name += data[start:end]

    def _text(self, data: bytes, start: int, end: int) -> None:
        self._value += data[start:end]

    def _header(self) -> None:
        if self._name.lower() == b"content-disposition":
            _, options = parse_options_header(self._value.decode("latin-1"))
            # Clients send names as UTF-8, whatever headers are else (HTML, "multipart/form-data").
            self._head = {name.decode("latin-1"): _utf8(value) for name, value in options.items()}
        self._name = self._value = b""

    def _ended(self) -> None:
        self.whole = True


def _utf8(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        raise InvalidArgument("cannot read the files: a file name is not valid UTF-8") from None


_GZIP = 16 + isal_zlib.MAX_WBITS
_CODING = re.compile(r"([a-z0-9*_-]+)(?:;q=([01](?:\.\d{0,3})?))?", re.ASCII)


def is_packed(accepted: str) -> bool:
    """Return whether an answer with this `Accept-Encoding` is packed with gzip.

    That is so if the client takes nothing else. Most libraries name whatever they can unpack, and would be
    served slower. Others are sent what the file has.

    Raises:
        HTTPException: it takes neither (406).
    """
    codings = {}
    for part in accepted[:1000].lower().replace(" ", "").split(","):
        if (found := _CODING.fullmatch(part)) is not None:
            codings[found[1]] = float(found[2] or 1)
    plain = codings.get("identity", codings.get("*", 1.0)) > 0
    gzip = codings.get("gzip", codings.get("*", 0.0)) > 0
    if not plain and not gzip:
        raise HTTPException(406, "cannot answer: a file is sent as it is, or packed with gzip")
    return gzip and (not plain or set(codings) == {"gzip"})


async def packed(content: AsyncIterator[Any], threads: CallThreads) -> AsyncIterator[bytes]:
    """Yield content packed with gzip; threads do the heavy work."""
    packer = isal_zlib.compressobj(level=1, wbits=_GZIP)
    async for piece in content:
        data = bytes(piece)
        if done := await threads.run(lambda data=data: packer.compress(data)):  # type: ignore[misc]
            yield done
    yield packer.flush()


PIECE = 1 << 20
"""Bytes that are unpacked, and written, in one step."""
LONGEST_PATH = 4096


def content_of(body: BodyPipe, *, packed: bool) -> Iterator[bytes]:
    """Yield the body, unpacked if it was packed with gzip.

    Raises:
        InvalidArgument: it is not gzip, or not whole.
    """
    return _unpacked(body.file()) if packed else body.parts()


def _unpacked(packed: IO[bytes]) -> Iterator[bytes]:
    try:
        plain = PlainStream(packed)
        if not plain.packed:
            raise tarfile.ReadError("its beginning is not valid")
        while data := plain.read(PIECE):
            yield data
    except tarfile.TarError as error:
        raise InvalidArgument(f"cannot unpack the body: it is not a complete gzip stream ({error})") from None


def store_files(
    files: SessionFiles,
    path: str | None,
    content: Iterator[bytes],
    boundary: bytes | None,
    metadata: Mapping[str, str],
) -> list[dict[str, Any]]:
    """Write the body's files, and return a description of each.

    Without a boundary the content is one file. With one it has files, each with its path as its name, or one
    file for the path of the request. Each gets the metadata.

    Raises:
        InvalidArgument: a file has no path, or there is none.
        SessionFileError: one cannot be written; those before it were.
    """
    if boundary is None:
        sent: Iterator[UploadedFile] = iter([UploadedFile("", content)])
    else:
        sent = files_in(content, boundary)
    stored = [_store(files, path, each, number, metadata) for number, each in enumerate(sent)]
    if not stored:
        raise InvalidArgument("cannot write: the body lacks the field `file`")
    return stored


def _store(
    files: SessionFiles, path: str | None, sent: UploadedFile, number: int, metadata: Mapping[str, str]
) -> dict[str, Any]:
    if path is not None and number:
        raise InvalidArgument(f"cannot write several files to {shown(path)}", hint="send them without `path`")
    to = sent.filename if path is None else path
    if not to or len(to) > LONGEST_PATH or "\0" in to:
        raise InvalidArgument("cannot write a file without a path, or with one of more than 4096 characters")
    make_above(files, to)
    try:
        if metadata:
            write_with_attributes(files, to, gathered(sent.content), attributes_of(metadata))
        else:
            files.write_parts(to, gathered(sent.content))
    except SessionFileError:
        if is_folder(files, to):
            raise InvalidArgument(f"cannot write {shown(to)}: a directory is there") from None
        raise
    place, found = located(files, to, attributes=bool(metadata))
    if not attributes_of(metadata).items() <= found.attributes.items():
        raise InvalidArgument(
            f"cannot keep metadata with {shown(to)}: the sandbox has an older version without metadata",
            hint="the file was written",
        )
    return uploaded_entry(clean(place), metadata)


def gathered(content: Iterator[bytes]) -> Iterator[bytes]:
    """Yield the same bytes in larger pieces: each piece is a request to the session, however small."""
    held = bytearray()
    for piece in content:
        held += piece
        if len(held) >= PIECE:
            yield bytes(held)
            held.clear()
    if held:
        yield bytes(held)


router = wire_router("e2b.files", prefix="/files")
Username = Annotated[str | None, Query(pattern=r"^([a-z_][a-z0-9_-]{0,31}|\d{1,10})?$")]
"""The only word on who acts here: a signature is for one user, and its holder may set any header."""
MARK = "x-metadata-"
RAW = "application/octet-stream"


@router.get("")
async def download(
    who: From,
    path: FilePath,
    username: Username = None,
    part: Annotated[str | None, Header(alias="Range", max_length=300)] = None,
    known: Annotated[str | None, Header(alias="If-None-Match", max_length=300)] = None,
) -> Response:
    """Return a file, or a range of it."""
    pack = part is None and is_packed(who.request.headers.get("accept-encoding", ""))
    try:
        place, user = await who.in_session(who.sandbox, lambda found: _place(who, found, path, username))
        answer = await file_routes.read(who, who.sandbox, place, user, part, known)
    except SessionFileError as error:
        if type(error) is not SessionFileError or not str(error).endswith("not a file"):
            raise
        raise InvalidArgument(str(error)) from None
    # Never shown by a browser: it would be a page of this server.
    answer.headers["Content-Disposition"] = (
        f"attachment; filename*=UTF-8''{quote(posixpath.basename(path), safe='', errors='replace')}"
    )
    answer.headers["Vary"] = "Accept-Encoding"
    if pack and isinstance(answer, StreamingResponse):
        del answer.headers["Content-Length"], answer.headers["Accept-Ranges"], answer.headers["ETag"]
        answer.headers["Content-Encoding"] = "gzip"
        content = aiter(answer.body_iterator)
        answer.body_iterator = packed(content, who.all.brief)
    return answer


@router.post("")
async def upload(
    who: From, path: Annotated[FilePath | None, Query()] = None, username: Username = None
) -> list[dict[str, Any]]:
    """Write the files of the body; each appears, or replaces an existing file, once complete."""
    headers = who.request.headers
    metadata = metadata_in(headers)
    kind, coding = headers.get("content-type", ""), headers.get("content-encoding", "identity").lower()
    if coding not in ("identity", "gzip"):
        raise HTTPException(415, f"cannot unpack {coding[:40]!r}: only gzip is accepted")
    boundary = boundary_of(kind)
    if boundary is None and kind.partition(";")[0].strip().lower() != RAW:
        raise HTTPException(415, f"cannot write: the body must be multipart/form-data or {RAW}")
    if boundary is None and path is None:
        raise InvalidArgument("cannot write: the request lacks a path")
    with BodyPipe(who.request.stream()) as body:
        content = content_of(body, packed=coding == "gzip")
        store = partial(store_files, path=path, content=content, boundary=boundary, metadata=metadata)
        return await body.feed_while(who.waits(lambda: store(who.files(who.session(who.sandbox), username))))


def _place(who: SandboxCaller, found: Session, path: str, username: str | None) -> tuple[str, str | None]:
    """Return the path of a file to be read, and the user whose rights apply."""
    facts = SandboxFacts.of(found.row)
    if facts is None or facts.home is None:
        return path, who.own_user(username)
    try:
        return located(who.files(found, username), path)[0], who.own_user(username)
    except SessionFileError as error:
        raise type(error)(str(error).replace("cannot look at", "cannot read", 1), hint=error.hint) from None


def metadata_in(headers: Mapping[str, str]) -> dict[str, str]:
    """Return the metadata of a request.  Pure.

    Raises:
        InvalidArgument: there is too much, or something that no file can keep.
    """
    found = {name.removeprefix(MARK): text for name, text in headers.items() if name.startswith(MARK)}
    if checked_attributes(attributes_of(found)) is None or "" in found:
        raise InvalidArgument(
            f"cannot keep the metadata: a file has {MOST_ATTRIBUTES} keys, values of printable ASCII,"
            f" and {LONGEST_ATTRIBUTES} bytes of both",
            hint="keep more in a file of its own",
        )
    if "" in found.values():  # the engine's layers cannot say it
        raise InvalidArgument(
            "cannot keep metadata with an empty value: a capture would lose it", hint="leave out the key"
        )
    return found
