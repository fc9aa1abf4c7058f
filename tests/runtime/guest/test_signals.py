"""Programs of a session ignore and block no signal, whatever the supervisor's own parent did."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator

import pytest
from tests.runtime.guest.harness import Guest, Result

NONE = (0, 0)
OF_THE_C_LIBRARY = 1 << 31 | 1 << 32
"""It has posix_spawn ignore its own two, 32 and 33 (signal(7)), as make does with what it starts."""
LOOK = "grep -E '^Sig(Ign|Blk)' /proc/self/status"
STAYS = {signal.SIGKILL, signal.SIGSTOP, signal.SIGCHLD, signal.SIGALRM}
"""The first two cannot be ignored, the others serve the tests."""


@pytest.fixture
def guest(marks_library: object) -> Iterator[Guest]:
    """A supervisor that was started with everything ignored and blocked."""
    numbers = signal.valid_signals() - STAYS
    before = {number: signal.signal(number, signal.SIG_IGN) for number in numbers}
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, numbers)
    try:
        running = Guest(marks_library)  # type: ignore[arg-type]
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    yield running
    running.stop()


def _signals(text: bytes) -> tuple[int, ...]:
    """Return the blocked and the ignored signals, in this order."""
    masks = re.findall(r"^Sig...:\s+(\w+)", text.decode().replace("\r", ""), re.MULTILINE)
    return tuple(int(mask, 16) & ~OF_THE_C_LIBRARY for mask in masks)


def test_everything_that_is_started_heeds_signals(guest: Guest) -> None:
    """Programs of the shell, of jobs and of the kernel."""
    assert _signals(guest.exec(LOOK).output) == NONE
    assert _signals(guest.exec(f"set +m; ({LOOK})").output) == NONE

    guest.ask("job_start", LOOK.encode(), id="t")
    assert _signals(Result(guest.ask("job_wait", id="t", patience=60)).output) == NONE

    cell = f"import subprocess\nprint(subprocess.check_output({LOOK!r}, shell=True, text=True))"
    streams = [frame for frame in guest.run_cell(cell) if frame.event == "stream"]
    assert _signals(b"".join(frame.payload for frame in streams)) == NONE


def test_programs_are_interrupted(guest: Guest) -> None:
    """Ctrl-C and Ctrl-\\ end what they would end, once that runs: a shell itself ignores the latter."""
    for key, code in ((b"\x03", 130), (b"\x1c", 131)):
        with guest.begin("cat") as connection:
            guest.ask("send", b"runs\n")
            connection.until_output(b"runs\r\nruns\r\n")
            guest.ask("send", key)
            assert connection.until("finished").head["exit_code"] == code
