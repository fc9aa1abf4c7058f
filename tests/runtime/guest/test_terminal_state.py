"""The verdict on one sample of the foreground of a terminal."""

from __future__ import annotations

import struct
from typing import Any

import pytest

from holdfast.runtime.guest.pulse import terminal_state
from holdfast.runtime.guest.pulse.input_kind import InputModes, Prompt, kind
from holdfast.runtime.guest.pulse.terminal_state import (
    DescriptorKind,
    ForegroundSample,
    ForegroundThread,
    SystemCall,
    ThreadActivity,
    decide,
    thing,
)

NORMAL = InputModes()
HIDDEN = InputModes(echo=False)
RAW = InputModes(canonical=False, echo=False, translates=False)
CBREAK = InputModes(canonical=False)
X86_64, AARCH64 = terminal_state.table("x86_64"), terminal_state.table("aarch64")


def _thread(
    doing: ThreadActivity, *things: DescriptorKind, pid: int = 10, tid: int | None = None
) -> ForegroundThread:
    return ForegroundThread(pid, tid or pid, SystemCall(doing), frozenset(things))


def _view(
    *threads: ForegroundThread, modes: InputModes = NORMAL, prompt: str = "", **more: Any
) -> ForegroundSample:
    shown = Prompt(prompt, alternate=more.pop("alternate", False))
    return ForegroundSample(threads, modes, shown, more.pop("names", {}), more.pop("parents", {}), **more)


READER = _thread(ThreadActivity.READS, DescriptorKind.TERMINAL)


def test_a_thread_that_reads_the_terminal_waits() -> None:
    """Whatever it wrote: a bare cat asks nothing."""
    found = decide(_view(READER))

    assert (found.state, found.detail, found.pid) == ("waiting", "line", 10)


@pytest.mark.parametrize("doing", [ThreadActivity.POLLS, ThreadActivity.SELECTS, ThreadActivity.EPOLLS])
def test_a_program_with_internal_plumbing_still_waits(doing: ThreadActivity) -> None:
    """Event loops also wait for their timers and signals."""
    thread = _thread(doing, DescriptorKind.TERMINAL, DescriptorKind.PLUMBING, DescriptorKind.PIPE)

    assert decide(_view(thread, modes=RAW)).state == "waiting"


def test_a_server_that_reads_keys_does_not_wait() -> None:
    """A development server has the terminal in its set all its life."""
    thread = _thread(ThreadActivity.EPOLLS, DescriptorKind.TERMINAL, DescriptorKind.SOCKET)

    found = decide(_view(thread, modes=RAW, prompt=""))

    assert (found.state, found.detail) == ("running", "io")


def test_a_reader_thread_of_a_server_does_not_wait() -> None:
    """One thread reads keys while a second one serves."""
    serving = _thread(ThreadActivity.EPOLLS, DescriptorKind.SOCKET, tid=11)

    assert decide(_view(READER, serving)).state == "running"


@pytest.mark.parametrize(
    ("modes", "prompt", "detail"),
    [(RAW, "ada@far:~$ ", "repl"), (RAW, "ada@far's password: ", "password"), (HIDDEN, "", "password")],
)
def test_a_client_with_a_prompt_waits(modes: InputModes, prompt: str, detail: str) -> None:
    """A remote shell is behind a socket; its output shows whether it waits."""
    thread = _thread(ThreadActivity.POLLS, DescriptorKind.TERMINAL, DescriptorKind.SOCKET)

    found = decide(_view(thread, modes=modes, prompt=prompt))

    assert (found.state, found.detail) == ("waiting", detail)


def test_a_watcher_that_computes_does_not_wait() -> None:
    """A test runner in watch mode reads keys while its workers work."""
    watcher, worker = (
        _thread(ThreadActivity.EPOLLS, DescriptorKind.TERMINAL),
        _thread(ThreadActivity.RUNS, pid=11),
    )
    busy = frozenset({11})
    view = _view(watcher, worker, modes=RAW, parents={11: 10}, busy=busy, hot=busy)

    found = decide(view)

    assert (found.state, found.detail, found.pid) == ("running", "cpu", 11)


def test_computing_elsewhere_in_the_pipeline_does_not_matter() -> None:
    """A pager waits for a key while its input is still being produced."""
    pager, maker = _thread(ThreadActivity.READS, DescriptorKind.TERMINAL), _thread(ThreadActivity.RUNS, pid=9)
    busy = frozenset({9})
    view = _view(pager, maker, names={10: "less"}, parents={9: 1, 10: 1}, busy=busy, hot=busy)

    assert decide(view).detail == "pager"


def test_a_closed_program_with_a_hidden_line_waits_for_a_password() -> None:
    """The call that a setuid program is blocked in cannot be seen; the terminal's modes can."""
    closed, above = _thread(ThreadActivity.CLOSED), _thread(ThreadActivity.WAITS_FOR_CHILD, pid=9)

    assert decide(_view(closed, above, modes=HIDDEN)).detail == "password"
    assert decide(_view(closed, above)).state == "running"
    assert decide(_view(closed, _thread(ThreadActivity.RUNS, pid=11), modes=HIDDEN)).state == "running"


def test_a_hidden_echo_alone_is_not_a_password_prompt() -> None:
    """A program can switch it off and sleep."""
    found = decide(_view(_thread(ThreadActivity.SLEEPS), modes=HIDDEN, prompt="Password: "))

    assert (found.state, found.detail) == ("running", "sleep")


@pytest.mark.parametrize(
    ("threads", "detail", "pid"),
    [
        ([_thread(ThreadActivity.RUNS)], "cpu", 10),
        ([_thread(ThreadActivity.SLEEPS)], "sleep", 10),
        ([_thread(ThreadActivity.TRANSFERS)], "io", 10),
        ([_thread(ThreadActivity.POLLS, DescriptorKind.SOCKET)], "io", 10),
        ([_thread(ThreadActivity.EPOLLS, DescriptorKind.PLUMBING)], "sleep", 10),
        ([_thread(ThreadActivity.WAITS_FOR_CHILD), _thread(ThreadActivity.SLEEPS, pid=11)], "sleep", 11),
        (
            [_thread(ThreadActivity.SLEEPS), _thread(ThreadActivity.READS, DescriptorKind.PIPE, pid=11)],
            "sleep",
            10,
        ),
        (
            [_thread(ThreadActivity.SLEEPS), _thread(ThreadActivity.READS, DescriptorKind.SOCKET, pid=11)],
            "io",
            11,
        ),
        ([_thread(ThreadActivity.WAITS_FOR_CHILD)], "io", 10),
    ],
)
def test_one_process_explains_what_is_running(threads: list[ForegroundThread], detail: str, pid: int) -> None:
    """A process that only waits for another does not explain it."""
    found = decide(_view(*threads))

    assert (found.state, found.detail, found.pid) == ("running", detail, pid)


def test_a_stopped_pipeline_is_stopped() -> None:
    """A parent that waits for a stopped child does nothing either."""
    stopped, above = _thread(ThreadActivity.STOPPED, pid=11), _thread(ThreadActivity.WAITS_FOR_CHILD)

    assert decide(_view(stopped, above)).state == "stopped"


def test_an_empty_foreground_runs() -> None:
    """Between two programs there can be a moment without any."""
    assert decide(_view()).state == "running"


@pytest.mark.parametrize(
    ("modes", "prompt", "name", "detail"),
    [
        (NORMAL, "Name: ", "python3", "line"),
        (NORMAL, "", "cat", "line"),
        (NORMAL, "Do you want to continue? [Y/n] ", "apt-get", "line"),
        (NORMAL, "", "bc", "repl"),
        (NORMAL, "$ ", "sh", "repl"),
        (NORMAL, "Go on? ", "bash", "line"),
        (NORMAL, "--More--(8%)", "more", "pager"),
        (HIDDEN, "", "su", "password"),
        (HIDDEN, "db=# ", "psql", "password"),
        (RAW, ">>> ", "python3", "repl"),
        (RAW, "> ", "node", "repl"),
        (RAW, "(gdb) ", "gdb", "repl"),
        (RAW, "ada@here:~$ ", "bash", "repl"),
        (RAW, "Edit: ", "bash", "line"),
        (RAW, "package name: (x) ", "node", "line"),
        (RAW, "Password: ", "node", "password"),
        (RAW, "(END)", "git", "pager"),
        (RAW, "", "fzf", "key"),
        (CBREAK, "Continue? ", "bash", "key"),
    ],
)
def test_the_kind_of_answer(modes: InputModes, prompt: str, name: str, detail: str) -> None:
    """From the terminal's modes first, then from the text, then from the program's name."""
    assert kind(modes, Prompt(prompt), name) == detail


@pytest.mark.parametrize(
    ("prompt", "name", "detail"), [("", "vim", "key"), ("100%", "vim", "key"), ("(END)", "git", "pager")]
)
def test_on_a_full_screen_a_key_is_wanted(prompt: str, name: str, detail: str) -> None:
    """Unless it is a pager's."""
    assert kind(RAW, Prompt(prompt, alternate=True), name) == detail


@pytest.mark.parametrize(
    ("target", "found"),
    [
        ("/dev/pts/3", DescriptorKind.TERMINAL),
        ("/dev/tty", DescriptorKind.TERMINAL),
        ("/dev/pts/4", DescriptorKind.OTHER),
        ("/dev/ptmx", DescriptorKind.MASTER),
        ("/dev/pts/ptmx", DescriptorKind.MASTER),
        ("socket:[17]", DescriptorKind.SOCKET),
        ("pipe:[18]", DescriptorKind.PIPE),
        ("anon_inode:[eventfd]", DescriptorKind.PLUMBING),
        ("/etc/passwd", DescriptorKind.OTHER),
    ],
)
def test_descriptors_are_classified_by_their_links(target: str, found: DescriptorKind) -> None:
    """See proc_pid_fd(5)."""
    assert thing(target, ("/dev/pts/3", "/dev/tty")) is found


def _line(number: int, *args: int) -> bytes:
    words = [*args, 0, 0, 0, 0, 0, 0][:6]
    return b"%d %s 0x7ffd 0x7f00\n" % (number, b" ".join(b"0x%x" % word for word in words))


@pytest.mark.parametrize(
    ("numbers", "number", "doing"),
    [
        (X86_64, 0, ThreadActivity.READS),
        (X86_64, 7, ThreadActivity.POLLS),
        (X86_64, 270, ThreadActivity.SELECTS),
        (X86_64, 281, ThreadActivity.EPOLLS),
        (X86_64, 230, ThreadActivity.SLEEPS),
        (X86_64, 61, ThreadActivity.WAITS_FOR_CHILD),
        (X86_64, 1, ThreadActivity.TRANSFERS),
        (AARCH64, 63, ThreadActivity.READS),
        (AARCH64, 73, ThreadActivity.POLLS),
        (AARCH64, 22, ThreadActivity.EPOLLS),
        (AARCH64, 115, ThreadActivity.SLEEPS),
        (AARCH64, 260, ThreadActivity.WAITS_FOR_CHILD),
    ],
)
def test_a_call_is_recognized_by_its_number(
    numbers: dict[int, ThreadActivity], number: int, doing: ThreadActivity
) -> None:
    """The numbers differ between machines."""
    assert terminal_state.parse(_line(number, 3, 5), numbers) == SystemCall(doing, (3, 5, 0, 0, 0, 0))


@pytest.mark.parametrize("line", [b"running\n", b"-1 0x7ffd 0x7f00\n", b"", b"x y z 1 2 3 4 5 6\n"])
def test_a_thread_in_no_call_runs(line: bytes) -> None:
    """A thread that computes, or was caught between two calls."""
    assert terminal_state.parse(line).doing is ThreadActivity.RUNS


def test_descriptors_are_found_in_the_arguments() -> None:
    """Only descriptors to read from count: a program can wait to write."""
    array = struct.pack("<ihhihhihh", 0, 1, 0, 5, 4, 0, -1, 1, 0)
    assert terminal_state.polled(array) == [0]
    assert terminal_state.polled(array[:-3]) == [0]
    assert terminal_state.selected(bytes([0b1001, 0b10]), 16) == [0, 3, 9]
    assert terminal_state.selected(b"", 1024) == []
    info = (
        b"pos:\t0\nflags:\t02000002\n"
        b"tfd:        0 events:       19 data:                0  pos:0 ino:8 sdev:1b\n"
        b"tfd:        9 events:        4 data:                9  pos:0 ino:9 sdev:9\n"
    )
    assert terminal_state.watched(info) == [0]
