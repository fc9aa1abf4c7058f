"""A page's description of itself, as `holdfast ports` shows it."""

from __future__ import annotations

import pytest

from holdfast.base.text import fit
from holdfast.runtime.pulse.listening_ports import MOST_OF_PAGE, page_title

OK = b"HTTP/1.0 200 OK\r\nContent-Type: text/html\r\n\r\n"


@pytest.mark.parametrize(
    ("page", "status", "title"),
    [
        (OK + b"<html><head><TITLE lang=en>My\n app</TITLE>", 200, "My app"),
        (OK + b"<title>a &amp; b</title><title>other</title>", 200, "a & b"),
        (OK + "<title>日本</title>".encode(), 200, "日本"),
        (OK + b"<title></title>", 200, None),
        (OK + b'{"a": 1}', 200, None),
        (b"HTTP/1.1 302 Found\r\nLocation: /login\r\n\r\n", 302, None),
        (b"HTTP/1.1 200 OK\r\nX: <title>of a header</title>", 200, None),
        (b"HTTP/1.1 2000 OK\r\n\r\n", None, None),
        (b"SSH-2.0-OpenSSH_9.9\r\n", None, None),
        (b"", None, None),
    ],
)
def test_a_page_has_a_status_and_a_title(page: bytes, status: int | None, title: str | None) -> None:
    assert page_title(page) == (status, title)


@pytest.mark.parametrize(
    "said",
    [
        "\u202egap\u2066\u200b".encode(),
        b"\x1b]0;owned\x07\x9b31m\x00",
        b"&#x202e;&#27;[31m&#0;",
        b"\xff\xfe\xed\xa0\x80",
        b"x" * MOST_OF_PAGE,
        b"&" * MOST_OF_PAGE,
        b"<title>" * 10_000,
    ],
)
def test_a_title_is_safe_to_show(said: bytes) -> None:
    """And short, however it is written."""
    _, title = page_title(OK + b"<title>" + said + b"</title>")
    assert len(title or "") <= 100
    assert all(map(fit, title or ""))
