from __future__ import annotations

import io
import re
import tarfile
from pathlib import Path
from typing import Any

import pytest

from holdfast.errors import InvalidArgument, ProtocolError
from holdfast.runtime.attachment import status_line
from holdfast.runtime.attachment.mirror_screen import MirrorScreen
from holdfast.runtime.attachment.screen_state import PROGRAM_TAIL, TAIL, OutputPart, ScreenView, parts, shown
from holdfast.runtime.cli.grammar import Verb, Words
from holdfast.runtime.cli.terminal_verbs import duration
from holdfast.runtime.guest.wire.protocol import Frame
from holdfast.runtime.guest_rpc.shell_report import Attached, ShellInfo, lease
from holdfast.runtime.history.recording import recording_source
from holdfast.runtime.history.recording.recording import RecordingPoint
from holdfast.runtime.terminal.emulator import Emulator
from holdfast.runtime.terminal.vt_parser import Sequence


class Session:
    """Output that grows, shown on a terminal of the same or a different size."""

    def __init__(self, rows: int, cols: int, mine: tuple[int, int], *, status: bool = False) -> None:
        self.output = b""
        self.size = rows, cols
        self.mine = Emulator(*mine)
        self.mirror = MirrorScreen(self.mine.feed_bytes, self.look, status=status)
        self.looked = 0

    def look(self) -> ScreenView:
        self.looked += 1
        terminal = Emulator(*self.size)
        terminal.feed_bytes(self.output)
        return ScreenView(terminal, len(self.output))

    def grow(self, data: bytes) -> Frame:
        start = len(self.output)
        self.output += data
        return Frame({"event": "output", "offset": start, "next": start + len(data)}, data)

    @property
    def text(self) -> str:
        return shown(self.mine).text


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [100.0]
    monkeypatch.setattr("holdfast.runtime.attachment.mirror_screen.time.monotonic", lambda: now[0])
    return now


def test_output_in_the_picture_is_not_shown_twice() -> None:
    """Late output, wholly or in part from before the picture, is left out."""
    session = Session(5, 20, (5, 20))
    first, second = session.grow(b"one "), session.grow(b"two ")
    session.mirror.renew((5, 20))
    third = Frame({"event": "output", "offset": 4, "next": 14}, b"two three ")
    session.output += b"three "
    for frame in (first, second, third):
        session.mirror.output(frame)

    assert session.text == "one two three"
    assert session.mirror.next == 14


def test_a_smaller_terminal_shows_the_part_with_the_cursor(clock: list[float]) -> None:
    """It is painted now and then, not for every byte."""
    session = Session(6, 20, (3, 8))
    session.grow(b"1\r\n2\r\n3\r\n4\r\n")
    session.mirror.renew((3, 8))
    assert session.text == "3\n4"

    session.mirror.output(session.grow(b"a long line"))
    session.mirror.tick()
    assert session.text == "3\n4"
    clock[0] += session.mirror.patience() or 0.0
    session.mirror.tick()
    assert session.text == "3\n4\na long l"
    assert session.mirror.patience() is None
    assert session.looked == 1


def test_a_notice_disappears(clock: list[float]) -> None:
    """It covers the first line for a moment and leaves the cursor where it was."""
    session = Session(3, 20, (3, 20))
    session.grow(b"text\r\n$ ")
    session.mirror.renew((3, 20))
    session.mirror.notice("held by \x1b]0;x\aperson:bob")
    assert session.text.startswith(" held by")
    assert shown(session.mine).cursor == (1, 2)

    clock[0] += session.mirror.patience() or 0.0
    session.mirror.tick()
    assert session.text == "text\n$"


def test_after_a_gap_the_newest_picture_is_shown() -> None:
    """Output that was lost leaves nothing wrong on the screen."""
    session = Session(3, 20, (3, 20))
    session.mirror.renew((3, 20))
    session.output = b"lost\r\n" + b"kept"
    session.mirror.gap(Frame({"event": "gap", "offset": 0, "size": 6}))

    assert session.text == "lost\nkept"
    assert session.mirror.next == 10


def test_output_is_filtered_in_a_terminal_of_any_size() -> None:
    """Bytes that pass, and the picture that is painted; also a sequence begun before the picture."""
    for mine in ((3, 20), (2, 10)):
        written: list[bytes] = []
        session = Session(3, 20, mine)
        session.mirror = MirrorScreen(written.append, session.look)
        session.grow(b"$ \x1b]52;c;eA")
        session.mirror.renew(mine)
        session.mirror.output(session.grow(b"==\x07\x1b[6nshown\x1b]2;title\x07\x1b[?1000h"))
        session.mirror.renew(mine)
        everything = b"".join(written)
        assert b"shown" in everything
        assert not any(bad in everything for bad in (b"52;c", b"==", b"\x1b[6n", b"title"))
        assert b"\x1b[?1000h" in everything


def test_questions_are_kept_until_they_are_answered() -> None:
    """In order, from terminals of any size, and not without end."""
    for mine in ((3, 20), (2, 10)):
        session = Session(3, 20, mine)
        session.mirror.renew(mine)
        session.mirror.output(session.grow(b"\x1b[c\x1b[21t\x1b[6n" + b"\x1b[5n" * 100))
        first, second, *more = session.mirror.asked
        assert (first, second) == (Sequence("", "", "", "c"), Sequence("", "6", "", "n"))
        assert len(more) == 6


def test_unfiltered_output_is_passed_unchanged() -> None:
    """With `--raw`."""
    written: list[bytes] = []
    session = Session(3, 20, (3, 20))
    session.mirror = MirrorScreen(written.append, session.look, unfiltered=True)
    session.mirror.renew((3, 20))
    session.mirror.output(session.grow(b"\x1b]52;c;eA==\x07\xff"))

    assert written[-1] == b"\x1b]52;c;eA==\x07\xff"
    assert session.mirror.asked == []


def test_a_terminal_that_is_not_utf8_is_painted_in_its_encoding() -> None:
    """The picture and the line at the top."""
    written: list[bytes] = []
    session = Session(3, 20, (3, 20))
    session.mirror = MirrorScreen(written.append, session.look, encoding="latin-1")
    session.grow("Û日".encode())
    session.mirror.renew((3, 20))
    session.mirror.notice("Û")

    assert b"\xdb?" in written[0]
    assert b" \xdb " in written[1]


K = 1 << 10


def test_which_output_makes_a_picture() -> None:
    """The end of it; of a full-screen program its picture, and the text before it."""
    assert parts(0, 10 * K, None, None, 0) == (OutputPart(0, 10 * K), None)
    assert parts(0, 900 * K, None, None, 0) == (OutputPart(900 * K - TAIL, 900 * K, cut=True), None)
    inside = parts(0, 900 * K, 100 * K, None, 0)
    assert inside == (
        OutputPart(100 * K - TAIL, 100 * K, cut=True),
        OutputPart(900 * K - PROGRAM_TAIL, 900 * K),
    )
    assert parts(0, 200 * K, 100 * K, None, 150 * K)[1] == OutputPart(150 * K, 200 * K)
    behind = parts(0, 900 * K, 100 * K, 890 * K, 0)
    assert behind == (OutputPart(100 * K - TAIL, 100 * K, cut=True), OutputPart(890 * K, 900 * K))
    assert parts(0, 900 * K, 100 * K, 200 * K, 0) == parts(0, 900 * K, None, None, 0)
    dropped = parts(500 * K, 900 * K, 100 * K, None, 0)
    assert dropped[0] == OutputPart(500 * K, 500 * K)


def archive(members: list[tuple[str, bytes, bytes]]) -> list[bytes]:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as opened:
        for name, kind, data in members:
            member = tarfile.TarInfo(name)
            member.type, member.size = kind, len(data)
            member.linkname = "/etc/passwd"
            opened.addfile(member, io.BytesIO(data))
    whole = packed.getvalue()
    return [whole[at : at + 700] for at in range(0, len(whole), 700)]


def test_only_plain_files_with_wanted_names_come_out_of_an_archive(tmp_path: Path) -> None:
    """No link, no path upwards, no more than the limit."""
    members = [
        ("output/0000", tarfile.REGTYPE, b"first"),
        ("../../0001", tarfile.REGTYPE, b"up"),
        ("output/0002", tarfile.SYMTYPE, b""),
        ("output/evil", tarfile.REGTYPE, b"x"),
        ("output/0003", tarfile.REGTYPE, b"y" * 5000),
    ]
    written = recording_source._unpacked(archive(members), tmp_path, re.compile(r"\d{4}"), 1000)

    assert [(path.name, path.read_bytes()) for path in written] == [("0000", b"first"), ("0001", b"up")]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["0000", "0001"]
    with pytest.raises(ProtocolError):
        recording_source._unpacked([b"no archive" * 100], tmp_path, re.compile("x"), 10)


def test_an_archive_of_other_things_is_not_read_without_end(tmp_path: Path) -> None:
    """A folder that a guest has filled with unwanted files is abandoned."""
    members = ((f"output/evil{number}", tarfile.REGTYPE, b"x" * 100_000) for number in range(40))

    with pytest.raises(ProtocolError, match="too many"):
        recording_source._unpacked(archive(list(members)), tmp_path, re.compile(r"\d{4}"), 1000)


def test_a_lease_is_checked() -> None:
    """Names are stripped of control characters; malformed fields are refused."""
    told = {"holder": "person:\x1b[2Jeve", "since": 5.0, "active": 6.5, "until": None}
    attached = [{"actor": "person:bob", "rows": 24, "cols": 80, "writes": False}]
    found = lease({"event": "lease", "lease": told, "attached": attached})

    assert "\x1b" not in (found.holder or "")
    assert (found.since, found.active, found.until) == (5.0, 6.5, None)
    assert found.attached == (Attached(actor="person:bob", rows=24, cols=80, writes=False),)
    assert lease({"event": "lease", "lease": None}).holder is None
    for wrong in ("x", {"holder": 5}, {"holder": "a", "since": "now"}):
        with pytest.raises(ProtocolError):
            lease({"event": "lease", "lease": wrong})


def test_times_as_people_write_them() -> None:
    """With units or without; nothing else."""
    assert [duration(text) for text in ("90", "90s", "1.5m", "2h", "1d")] == [90, 90, 90, 7200, 86400]
    for wrong in ("", "0", "m", "-5", "5x", "1e3"):
        with pytest.raises(InvalidArgument):
            duration(wrong)


def test_places_in_a_recording(monkeypatch: pytest.MonkeyPatch) -> None:
    """An offset, a time ago, a time; anything else is looked up as a snapshot."""
    monkeypatch.setattr("holdfast.runtime.history.recording.recording_source.time.time", lambda: 1000.0)
    nobody: Any = None

    assert recording_source.place(nobody, nobody, "512", "main") == RecordingPoint(offset=512)
    assert recording_source.place(nobody, nobody, "10m", "main") == RecordingPoint(at=400.0)
    assert recording_source.place(nobody, nobody, "1970-01-01T00:01:00+00:00", "main") == RecordingPoint(
        at=60.0
    )


def test_the_lease_verb_is_particular() -> None:
    """Unknown actions and a missing recipient are refused before any request."""
    from holdfast.runtime.cli.terminal_verbs import lease

    verb = Verb("lease", lease)
    for wrong in (["S", "grab"], ["S", "give"], ["S", "take", "person:bob"]):
        with pytest.raises(InvalidArgument):
            verb.function(**Words(verb, wrong).values())


def test_a_status_line_stays_below_what_a_program_shows(clock: list[float]) -> None:
    """Through scrolling, erasing, the second screen, a region of the program's own; it leaves no trace."""
    session = Session(5, 30, (6, 30), status=True)
    session.mirror.renew((6, 30))
    session.mirror.show_status("held by no one")

    def last() -> str:
        return session.text.split("\n")[5].strip() if session.text.count("\n") == 5 else ""

    for data, seen in (
        (b"".join(b"line %d\r\n" % number for number in range(20)), "line 19"),
        (b"\x1b[H\x1b[2Jcleared", "cleared"),
        (b"\x1b[?1049h\x1b[2J\x1b[99;1Hat the bottom", "at the bottom"),
        (b"\x1b[1;3r\x1b[5;1Hstays\n\n\n", "stays"),
        (b"\x1b[r\x1b[?1049lback", "clearedback"),
    ):
        session.mirror.output(session.grow(data))
        clock[0] += 0.1
        session.mirror.tick()
        assert seen in session.text
        assert last().startswith("held by no one"), session.text
    clock[0] += 5
    session.mirror.tick()
    assert last().startswith("held by no one")
    looked = session.looked
    session.mirror.output(session.grow(b" on"))
    assert session.looked == looked, "output is passed on again"
    session.mirror.notice("a message")
    assert last().startswith("a message")
    clock[0] += 5
    session.mirror.tick()
    assert last().startswith("held by no one")
    session.mirror.close()
    assert last() == ""


def test_a_place_that_a_program_has_saved_outlasts_the_status_line(clock: list[float]) -> None:
    session = Session(5, 30, (6, 30), status=True)
    session.mirror.renew((6, 30))
    session.mirror.output(session.grow(b"\x1b[2;3H\x1b7\x1b[4;1H"))
    session.mirror.show_status("changed")
    clock[0] += 5
    session.mirror.tick()
    assert "changed" in session.text
    session.mirror.output(session.grow(b"\x1b8here"))
    assert session.text.split("\n")[1] == "  here"


def test_a_status_line_is_switched_off_and_needs_some_rows() -> None:
    """Without it the session has all rows; with unfiltered output it cannot be kept."""
    mirror = Session(5, 30, (6, 30), status=True).mirror
    assert mirror.room((6, 30)) == (5, 30)
    assert mirror.room((4, 30)) == (4, 30)
    assert mirror.switch_status()
    assert mirror.room((6, 30)) == (6, 30)
    assert not MirrorScreen(
        lambda _: None, Session(5, 30, (6, 30)).look, unfiltered=True, status=True
    ).switch_status()


def test_what_a_session_says_in_the_status_line_is_cut_text() -> None:
    shell = {"name": "main", "pid": 1, "rows": 5, "cols": 30, "offset": 0}
    prompt = "\x1b]2;evil\x07\u202e\u65e5\u672c: " + "x" * 500
    waits = {"state": "waiting", "detail": "line", "pid": 1, "command": "ssh", "since": 1.0, "prompt": prompt}
    shells = [ShellInfo.of({**shell, "observed": waits}), ShellInfo.of({**shell, "name": "logs"})]
    text = status_line.status("work", "main", shells, lease({"attached": []}))
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert "shells: logs" in text
    for cols in (5, 30, 200):
        row = status_line.filled(text, cols)
        emulated = Emulator(1, cols)
        emulated.feed_bytes(row.encode())
        assert emulated.cursor.x == cols
