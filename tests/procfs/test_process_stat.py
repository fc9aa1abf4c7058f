"""The parser of /proc/PID/stat, on texts as the kernel writes them."""

from __future__ import annotations

import os

import pytest

from holdfast.procfs import process_stat


def test_a_name_can_contain_anything() -> None:
    """The kernel does not escape the name of a process."""
    line = b"42 (a) b (c)) S 1 42 40 34816 42 4194304 1 0 0 0 150 50 0 0 20 0 3 0 1234 8192 2 1844674407370"

    found = process_stat.parse(line)

    assert found is not None
    assert (found.pid, found.name, found.state, found.parent) == (42, "a) b (c)", "S", 1)
    assert (found.group, found.session, found.terminal, found.foreground) == (42, 40, 34816, 42)
    assert (found.cpu, found.threads, found.start) == (200 / process_stat.TICKS, 3, 1234 / process_stat.TICKS)
    assert (found.virtual, found.resident) == (8192, 2 * os.sysconf("SC_PAGE_SIZE"))


@pytest.mark.parametrize(("state", "flags", "ended"), [("R", 0, False), ("Z", 0, True), ("R", 4, True)])
def test_an_exiting_process_has_ended(state: str, flags: int, ended: bool) -> None:
    """From then on no signal reaches it, even while its end is still running: PF_EXITING."""
    line = f"42 (a) {state} 1 42 40 34816 42 {4194304 | flags} 1 0 0 0 1 5 0 0 20 0 3 0 1234 8192 2 18"

    found = process_stat.parse(line.encode())

    assert found is not None
    assert found.ended == ended


def test_invalid_stat_text_gives_none() -> None:
    """A process that ends while it is read gives an empty or a short file."""
    assert process_stat.parse(b"") is None
    assert process_stat.parse(b"1 (x) S 1 2") is None


def test_truncated_text_gives_the_fields_it_has() -> None:
    """Nothing is an error, and a name is never taken for a field."""
    assert process_stat.fields(b"42 (a) Z) R 7") == [b"R", b"7"]
    assert process_stat.fields(b"42 (a)") == process_stat.fields(b"") == []


def test_numbers_of_terminals() -> None:
    """The number of a device is its major and minor number, interleaved."""
    numbers = (0, 136 << 8 | 3, 137 << 8, 136 << 8 | 1 << 20, 4 << 8 | 1)
    found = [process_stat.pseudo_terminal(*process_stat.device(number)) for number in numbers]

    assert found == [None, 3, 256, 256, None]
