"""Typed text that a terminal would cut is refused, and nothing else."""

from __future__ import annotations

import pytest
from tests.runtime.guest.harness import Guest, Refused

from holdfast.runtime.guest.shells.typed import LONGEST_TYPED, LineLimit

ENDS = b"\n\x04\x15\r"


def test_lines_are_measured_with_earlier_input() -> None:
    """Up to their ends, whatever ends them; a terminal that reads keys does not have lines."""
    limit = LineLimit()
    assert limit.excess(b"x" * LONGEST_TYPED + b"\n" + b"y" * LONGEST_TYPED, ENDS) == 0
    assert limit.excess(b"\n" + b"x" * (LONGEST_TYPED + 1) + b"\n", ENDS) == LONGEST_TYPED + 1
    assert limit.excess(b"x" * 10_000, b"") == 0
    limit.typed(b"a\n" + b"x" * 3000, ENDS)
    limit.typed(b"y" * 1000, ENDS)
    assert limit.excess(b"z" * 95 + b"\n", ENDS) == 0
    assert limit.excess(b"z" * 96 + b"\n", ENDS) == LONGEST_TYPED + 1
    assert limit.excess(b"z" * 96, ENDS, begun=False) == 0
    limit.typed(b"\x15", ENDS)
    assert limit.excess(b"z" * LONGEST_TYPED, ENDS) == 0
    limit.typed(b"z" * 4000, ENDS)
    limit.typed(b"key", b"")
    assert limit.excess(b"z" * LONGEST_TYPED, ENDS) == 0


def test_a_prompt_takes_a_line_of_any_length_but_its_command_does_not() -> None:
    """Except for a paste that is marked as one."""
    limit = LineLimit()
    assert limit.later_excess(b"x" * 10_000 + b"\r" + b"y" * LONGEST_TYPED + b"\n") == 0
    assert limit.later_excess(b"x\r" + b"y" * 5000 + b"\n") == 5000
    assert limit.later_excess(b"\x1b[200~x\r" + b"y" * 5000 + b"\x1b[201~\r") == 0


def _refused(guest: Guest, op: str, data: bytes, **args: object) -> None:
    with pytest.raises(Refused, match="takes 4095 and drops the rest") as refused:
        guest.ask(op, data, **args)
    assert refused.value.code == "line_too_long"


def test_a_line_that_would_be_cut_is_not_typed(guest: Guest) -> None:
    """All that was typed arrives, to the last byte; also in pieces, and where keys are read."""
    line = b"y" * LONGEST_TYPED + b"\n"
    with guest.begin("cat > f") as command:
        command.until("waiting")
        _refused(guest, "send", b"y" + line)
        guest.ask("send", line * 3)
        guest.ask("send", b"z" * 4000)
        _refused(guest, "send", b"z" * 96 + b"\n")
        guest.ask("send", b"\n\x04")
        command.until("finished")
    assert (guest.folder / "work" / "f").read_bytes() == line * 3 + b"z" * 4000 + b"\n"

    with guest.begin("stty raw -echo; head -c 10001 > f; stty cooked echo") as command:
        command.until("waiting")
        guest.ask("send", b"y" * 10_000 + b"\n")
        command.until("finished")
    assert (guest.folder / "work" / "f").stat().st_size == 10_001

    _refused(guest, "send", b"cat > g\n" + b"y" * 5000 + b"\n\x04")
    # Also right after a command, before the prompt appears: the terminal reads keys or lines there.
    guest.exec("PROMPT_COMMAND='sleep 0.2'; stty raw")
    _refused(guest, "send", b"cat > g\n" + b"y" * 5000 + b"\n\x04")
    guest.exec("stty cooked")
    guest.exec("PROMPT_COMMAND='sleep 0.2'")
    guest.ask("send", b": " + b"y" * 5000 + b"\n")
    assert guest.exec("echo typed; ls g").output.startswith(b"typed\r\nls: ")


def test_a_line_that_a_job_would_lose_is_not_typed(guest: Guest) -> None:
    """As for a shell."""
    guest.ask("job_start", b"cat > f", id="t")
    with guest.call("job_wait", id="t") as job:
        job.until("waiting")
        _refused(guest, "job_send", b"y" * 5000 + b"\n", id="t")
        guest.ask("job_send", b"y" * 4000 + b"\n\x04", id="t")
        job.until("finished")
    assert (guest.folder / "work" / "f").stat().st_size == 4001
