"""Output of the command line: for people, for programs, and errors.

Text of guests and people is stripped of control characters before it is shown.  Rich is imported only where
a table or a tree is drawn.
"""

from __future__ import annotations

import codecs
import contextlib
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from io import TextIOWrapper

from holdfast.base import printable_json
from holdfast.base.text import plain, seconds
from holdfast.base.text import size as size
from holdfast.errors import HoldfastError, LiveUnsupported, SecretsFound

TYPE_CHECKING = False
if TYPE_CHECKING:
    from datetime import datetime
    from typing import Any, TextIO

    from rich.console import Console

    from holdfast.runtime.terminal.safe_output import SafeOutput

GAP = 2
"""Blanks between two columns of a table."""
clear_line: Callable[[], None] | None = None
"""Clears the line that says what is under way (`step_line`), if there is one."""
line_open = False
"""Whether the last output of a session did not end its line, into which no step must be written."""
_PLAIN = bytes((*b"\t\n\r", *range(0x20, 0x7F)))
"""Bytes of output that no terminal needs to be protected from."""
PIECE = 3 << 16
"""Bytes of a long text; a multiple of three, so that pieces in base64 do not need filling (RFC 4648)."""
APPROXIMATE = "holdfast.approximate"
"""The name of the error handler of encodings."""
_LIKE = str.maketrans(
    {
        "…": "...",
        "–": "-",
        "—": "-",
        "│": "|",
        "├": "|",
        "└": "`",
        "─": "-",
        "●": "*",
        "○": "o",
        "▶": ">",
        "╮": ".",
        "·": ".",
        "→": "->",
        "×": "x",
    }
)


def emit(value: Mapping[str, Any] | Sequence[Mapping[str, Any]]) -> None:
    """Write one JSON value to standard output."""
    say(encodable_json(printable_json.dumps(value), sys.stdout))


def emit_long(value: Mapping[str, Any], name: str, data: bytes) -> None:
    """Write an object to standard output in pieces: the items of `value`, and `data` as text under `name`.

    If the bytes are not UTF-8, `<name>_base64` also has them in base64. A JSON string is escaped character
    by character (RFC 8259, section 7), so pieces of it are; memory holds the text once, as its bytes.
    """
    for piece in pieces(value, name, data):
        sys.stdout.write(encodable_json(piece, sys.stdout))


def pieces(value: Mapping[str, Any], name: str, data: bytes) -> Iterator[str]:
    """Yield the text of such an object and a newline, in order."""
    yield printable_json.dumps(dict(value))[:-1]
    yield ", " * bool(value) + f'"{name}": "'
    import base64

    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    for at in range(0, len(data), PIECE):
        yield _escaped(decoder.decode(data[at : at + PIECE]))
    yield _escaped(decoder.decode(b"", final=True)) + '"'
    if not _is_text(data):
        yield f', "{name}_base64": "'
        for at in range(0, len(data), PIECE):
            yield base64.b64encode(data[at : at + PIECE]).decode("ascii")
        yield '"'
    yield "}\n"


def _escaped(text: str) -> str:
    return printable_json.dumps(text)[1:-1]


def _is_text(data: bytes) -> bool:
    decoder = codecs.getincrementaldecoder("utf-8")("strict")
    try:
        for at in range(0, len(data), PIECE):
            decoder.decode(data[at : at + PIECE])
        decoder.decode(b"", final=True)
    except UnicodeDecodeError:
        return False
    return True


def encodable_json(text: str, stream: TextIO) -> str:
    """Return JSON that a stream can take: with escapes if its encoding is not one of Unicode."""
    if text.isascii() or stream.encoding.lower().startswith("utf"):
        return text
    return printable_json.ascii_only(text)


def has_color(stream: TextIO) -> bool:
    """Return whether a stream shows colors: it is a terminal, and its user has not chosen otherwise.

    See https://no-color.org.
    """
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def say(text: str) -> None:
    """Write a line to standard output."""
    make_room()
    sys.stdout.write(text + "\n")


def note(text: str) -> None:
    """Write a progress line to standard error."""
    make_room()
    sys.stderr.write(f"holdfast: {plain(text)}\n")
    sys.stderr.flush()


def make_room() -> None:
    """Clear the progress line before other output is written."""
    if clear_line is not None:
        clear_line()


def fail(error: HoldfastError, *, as_json: bool) -> None:
    """Write an error to standard error: a line and a hint, or one JSON object."""
    more = {"findings": list(error.findings)} if isinstance(error, LiveUnsupported | SecretsFound) else {}
    report(error.code, str(error), error.hint, as_json=as_json, more=more)


def report(
    code: str, message: str, hint: str, *, as_json: bool, more: Mapping[str, Any] | None = None
) -> None:
    """Write a failure to standard error; `more` is for programs only."""
    make_room()
    if as_json:
        body = {"code": code, "message": plain(message), "hint": plain(hint, 2000), **(more or {})}
        sys.stderr.write(encodable_json(printable_json.dumps({"error": body}), sys.stderr) + "\n")
        return
    sys.stderr.write(f"holdfast: {plain(message)}\n")
    if hint:
        sys.stderr.write(f"  hint: {plain(hint, 2000)}\n")


@contextlib.contextmanager
def guest_output(*, raw: bool = False, file: TextIO | None = None) -> Iterator[Callable[[bytes], None]]:
    """Write the output of a guest's programs without delay, to standard output if no file is given.

    A program gets the bytes unchanged. A terminal gets the safe part of them (`safe_output.py`), unless `raw`
    is set, and is reset at the end to the state a shell expects.
    """
    to = file or sys.stdout
    if raw or not to.isatty():
        yield lambda data: _write(to, data)
        return
    safe: SafeOutput | None = None

    def show(data: bytes) -> None:
        nonlocal safe
        if safe is None and data.translate(None, _PLAIN):
            # Most output needs no filter, nor the milliseconds that loading it takes.
            from holdfast.runtime.terminal.safe_output import SafeOutput

            safe = SafeOutput(encoding=to.encoding)
        _write(to, data if safe is None else safe.feed(data))

    try:
        yield show
    finally:
        if safe is not None:
            _write(to, safe.end())


def _write(file: TextIO, data: bytes) -> None:
    global line_open
    make_room()
    if data:
        line_open = not data.endswith(b"\n")
    file.flush()
    file.buffer.write(data)
    file.buffer.flush()


def mute() -> None:
    """Discard standard output after a broken pipe, including what the interpreter writes at its end."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, sys.stdout.fileno())
    os.close(null)


def table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Write a table for people; outside a terminal it is as wide as it needs to be."""
    lines = [list(columns), *([plain(cell, 300) for cell in row] for row in rows)]
    widths = [max(map(_width, column)) for column in zip(*lines, strict=True)]
    terminal = sys.stdout.isatty()
    if terminal:
        import shutil

        room = shutil.get_terminal_size().columns
        if sum(widths) + GAP * (len(widths) - 1) > room:
            _narrow_table(columns, lines[1:], shares(widths, room - (len(widths) - 1)))
            return
    for number, line in enumerate(lines):
        cells = (cell + " " * (width - _width(cell) + GAP) for cell, width in zip(line, widths, strict=True))
        text = "".join(cells).rstrip()
        say(f"\x1b[1m{text}\x1b[0m" if number == 0 and has_color(sys.stdout) else text)


def _width(text: str) -> int:
    """Return the columns that a text takes in a terminal: wide characters two, combining marks none."""
    if text.isascii():
        return len(text)
    import unicodedata

    return sum(
        0 if unicodedata.combining(each) else 2 if unicodedata.east_asian_width(each) in "WF" else 1
        for each in text
    )


def shares(widths: Sequence[int], room: int) -> list[int]:
    """Return widths that fit into the room together, by cutting the widest columns. Pure."""
    most = max(widths)
    while most > 1 and sum(min(width, most) for width in widths) > room:
        most -= 1
    return [min(width, most) for width in widths]


def _narrow_table(columns: Sequence[str], rows: Iterable[Sequence[str]], widths: Sequence[int]) -> None:
    """Write a table that is wider than the terminal, with one blank between columns that are cut."""
    from rich.table import Table
    from rich.text import Text

    drawn = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0), header_style="bold")
    for column, width in zip(columns, widths, strict=True):
        drawn.add_column(column, no_wrap=True, width=width)
    for row in rows:
        drawn.add_row(*map(Text, row))
    console().print(drawn)


def console() -> Console:
    """Return Rich's console on standard output."""
    from rich.console import Console

    return Console(width=None if sys.stdout.isatty() else 4000, highlight=False)


def image(ref: str) -> str:
    """Return an image's tag, or the first digits of its id."""
    return ref[7:19] if ref.startswith("sha256:") else ref


def origin(ref: str, snapshot: str | None) -> str:
    """Return the image that a session began with, or the snapshot that its image belongs to."""
    return f"snapshot {snapshot}" if snapshot is not None and ref.startswith("sha256:") else image(ref)


def ago(moment: datetime, now: datetime) -> str:
    """Return how long ago a time was, in the largest whole unit."""
    return f"{seconds(max(0.0, (now - moment).total_seconds()))} ago"


def approximate(error: UnicodeError) -> tuple[str, int]:
    """Return a replacement for characters that cannot be encoded, and where to continue; see `codecs`.

    Raises:
        UnicodeError: it was not an encoder that failed.
    """
    if not isinstance(error, UnicodeEncodeError):
        raise error
    lacking = error.object[error.start : error.end].translate(_LIKE)
    return "".join(char if char.isascii() else "?" for char in lacking), error.end


def never_fail() -> None:
    """Make standard output and standard error able to write every text."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper) and not is_unicode(stream.encoding):
            codecs.register_error(APPROXIMATE, approximate)
            stream.reconfigure(errors=APPROXIMATE)


def is_unicode(encoding: str | None) -> bool:
    """Return whether an encoding has all characters."""
    return (encoding or "").lower().replace("-", "").replace("_", "").startswith("utf")
