"""The text at the cursor."""

from __future__ import annotations

import pytest

from holdfast.runtime.guest.pulse.input_kind import LONGEST, PAGER, PASSWORD, REPL, Prompt, at_cursor


@pytest.mark.parametrize(
    ("output", "text"),
    [
        (b"", ""),
        (b"Name: ", "Name: "),
        (b"one\r\ntwo\r\nName: ", "Name: "),
        (b"a question\r\n", "a question"),
        (b"10 %\r20 %\r30 %", "30 %"),
        (b"abc\b\b\bxyz", "xyz"),
        (b"abc\x1b[2D12", "a12"),
        (b"wrong\r\x1b[Kright: ", "right: "),
        (b"\x1b[1;32mwork\x1b[0m\x1b[K> ", "work> "),
        (b"\x1b[1G\x1b[0J> \x1b[3G", "> "),
        (b"\x1b[?2004h\x1b[1A\n\x1b[1;35m>>> \x1b[0m\x1b[4D\x1b[4C", ">>> "),
        (b"line one\x1b[24;1Hstatus", "status"),
        (b"\x1b]133;B;hf=0;n=1\x07\x1b]0;title\x1b\\Password: ", "Password: "),
        (b"text \x1b[4Pmore", "text more"),
        (b"ab\r\x1b[2@", "  ab"),
        (b"ab\r\x1b[1X?", "?b"),
        ("größer? ".encode(), "größer? "),
    ],
)
def test_the_line_of_the_cursor_is_the_prompt(output: bytes, text: str) -> None:
    """Escape sequences are obeyed as far as they concern one line, and never shown."""
    assert at_cursor(output).text == text.lstrip()


def test_the_prompt_of_an_empty_line_is_the_line_above() -> None:
    """A program can ask on one line and read on the next; the two cases are distinguished."""
    assert at_cursor(b"What now?\r\n").above
    assert not at_cursor(b"What now?\r\n").asks
    assert not at_cursor(b"What now? ").above
    assert at_cursor(b"What now? ").asks


def test_a_full_screen_program_is_recognized() -> None:
    """Programs switch to the alternate screen and back."""
    assert at_cursor(b"\x1b[?1049h\x1b[Htext").alternate
    assert not at_cursor(b"\x1b[?1049htext\x1b[?1049l$ ").alternate


def test_a_line_without_an_end_is_bounded() -> None:
    """Output can come from any program."""
    assert len(at_cursor(b"x" * 100_000).text) == LONGEST
    assert len(at_cursor(b"\x1b[99999999C" + b"x").text) <= LONGEST


@pytest.mark.parametrize(
    "text",
    [
        "Password: ",
        "[sudo] password for ada: ",
        "Enter PEM pass phrase:",
        "tester@localhost's password: ",
        "Enter PIN: ",
        "Enter passphrase for key '/k': ",
    ],
)
def test_prompts_for_passwords(text: str) -> None:
    """As programs write them that read raw keys."""
    assert PASSWORD.search(text)


@pytest.mark.parametrize(
    "text", [">>> ", "... ", "In [12]: ", "(Pdb) ", "ipdb> ", "(gdb) ", "db=# ", "sqlite> ", "mysql> ", "$ "]
)
def test_prompts_of_programs_that_read_commands(text: str) -> None:
    """As their authors chose them."""
    assert REPL.match(text)


@pytest.mark.parametrize(
    "text", ["Continue? [y/N] ", "Name: ", "Password: ", "50 % ", "Downloading x", "a > b"]
)
def test_other_text_is_not_such_a_prompt(text: str) -> None:
    """A question is not a program that reads commands."""
    assert not REPL.match(text)


@pytest.mark.parametrize(
    "text", ["Name: ", "Sure? ", "[y/N] ", "(yes/no) ", "ada@far:~$ ", "far# ", "far% ", "❯ ", "db> "]
)
def test_questions_are_recognized_by_their_ends(text: str) -> None:
    """They decide where nothing else shows that the user is asked."""
    assert Prompt(text).asks


@pytest.mark.parametrize("text", ["50 %", "50% ", "[####] ", "(1/3) ", "[==> ", "#### ", "ready", ""])
def test_progress_is_not_a_question(text: str) -> None:
    """Clients draw it while they are connected and read keys."""
    assert not Prompt(text).asks


@pytest.mark.parametrize("text", [":", "(END)", "--More--(8%)", " lines 1-20", "/etc/services (END)"])
def test_prompts_of_pagers(text: str) -> None:
    """The last line of the screen."""
    assert PAGER.match(text)
