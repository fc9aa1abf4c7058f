"""The files of a multipart body, one after the other, while the body still arrives.  Pure.

Nothing of a file is kept: its content is passed on as it comes, and has to be read before the next file.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header

from holdfast.errors import InvalidArgument

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
    """One file on its way. `filename` is what the client calls it, often a path; empty without one."""

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
        raise InvalidArgument("cannot read the files: the multipart body names no boundary")
    return options[b"boundary"]


def files_in(body: Iterable[bytes], boundary: bytes) -> Iterator[UploadedFile]:
    """Yield the files of a body.

    Raises:
        InvalidArgument: it is no such body, is not whole, or has too many files.
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
        raise InvalidArgument(f"cannot read the files: the body is no multipart form ({error})") from None
    raise InvalidArgument("cannot read the files: the rest of the body is missing")


@dataclass(slots=True)
class _Found:
    """What the parser calls out, in its order."""

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
        raise InvalidArgument("cannot read the files: the name of one is no UTF-8") from None
