"""Listening ports of a session and links to them, as values, and the title of a page.  Pure."""

from __future__ import annotations

import html
import re
from dataclasses import dataclass
from typing import Any, Literal

from pydantic_core import to_jsonable_python

from holdfast.base.text import plain

PortAnswers = Literal["http", "other", "silent", "unreachable", "untried"]
MOST_OF_PAGE = 64 << 10
"""Bytes of a page in which its title is looked for."""
_LONGEST_TITLE = 100
_LONGEST_RAW = 4096
_STATUS = re.compile(rb"HTTP/\d(?:\.\d)? (\d{3})(?=[ \r\n])")
_TITLE = re.compile(r"<title(?:\s[^<>]{0,200})?>", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class ListeningPort:
    """A port that accepts TCP connections.

    Attributes:
        port: its number.
        addresses: the local addresses; previews reach loopback and all addresses.
        pid: the process, if it is seen.
        program: its command line.
        answer: `http`; `other` for a server that accepts and says something else, or nothing; `silent` if it
            does not accept; `unreachable`; `untried` if too many ports listen.
        status: of its answer to a request for `/`.
        title: of the page it answered with.
    """

    port: int
    addresses: tuple[str, ...]
    pid: int | None
    program: str
    answer: PortAnswers
    status: int | None = None
    title: str | None = None

    def as_dict(self) -> dict[str, Any]:
        """Return the port in its JSON form."""
        found: dict[str, Any] = to_jsonable_python(self)
        return found


@dataclass(frozen=True, slots=True)
class Preview:
    """A way for people to a port of a session.

    Attributes:
        url: opens this port in a browser, and nothing else.
        port: its number.
        public: whether everyone who knows the name of the port sees it, also without the link.
        expires_at: when that ends, in seconds since 1970.
    """

    url: str
    port: int
    public: bool
    expires_at: float

    def as_dict(self) -> dict[str, Any]:
        """Return the preview in its JSON form."""
        found: dict[str, Any] = to_jsonable_python(self)
        return found


def page_title(page: bytes) -> tuple[int | None, str | None]:
    """Return the status of an answer in HTTP, and the title of its page, safe to show; None without one."""
    found = _STATUS.match(page)
    if found is None:
        return None, None
    text = page.partition(b"\r\n\r\n")[2][:MOST_OF_PAGE].decode("utf-8", "replace")
    begin = _TITLE.search(text)
    if begin is None:
        return int(found[1]), None
    raw = text[begin.end() : begin.end() + _LONGEST_RAW]
    title = plain(html.unescape(raw.partition("</")[0]), _LONGEST_RAW)
    return int(found[1]), plain(" ".join(title.split()), _LONGEST_TITLE) or None
