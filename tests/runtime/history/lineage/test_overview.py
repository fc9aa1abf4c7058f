from __future__ import annotations

from typing import Any

from holdfast.runtime.history.lineage.overview import OrderedEntries, Ran, summed
from holdfast.runtime.store.journal_entries import EntryRow
from holdfast.runtime.store.timelines import Branch


def _entry(seq: int, text: Any, of: str = "s", kind: str = "command_started") -> EntryRow:
    field = {"cell_started": "code", "input": "text"}.get(kind, "command")
    return EntryRow(seq, of, seq, False, float(seq), kind, None, {field: text})


def test_commands_are_counted_and_the_first_are_shown() -> None:
    """The first lines of the first three; input is counted, not shown."""
    found = summed([
        _entry(1, "cd /srv\nls"), _entry(2, "x = 1", kind="cell_started"), _entry(3, "secret", kind="input"),
        _entry(4, "make"), _entry(5, "y" * 200), _entry(6, {"odd": 1}),
    ])  # fmt: skip

    assert (found.commands, found.cells, found.inputs) == (4, 1, 1)
    assert found.text == "4 commands, 1 cell, 1 input: cd /srv…; x = 1; make; …"
    assert summed([]).text == ""
    assert not summed([])
    assert Ran(1).text == "1 command"


def test_control_characters_do_not_reach_the_terminal() -> None:
    """Output of a session is made safe to show."""
    assert "\x1b" not in summed([_entry(1, "echo \x1b]0;x\x07")]).text


def test_a_stretch_crosses_the_sessions_of_a_line() -> None:
    """From after one entry to another; events of other timelines are not in it."""
    entries = [_entry(n, f"s{n}") for n in range(1, 8)] + [_entry(n, f"t{n}", "t") for n in range(5, 9)]
    told = OrderedEntries(entries, {"t": Branch("s", 4, 4.0)})

    assert told.ran("t", 2, 6).samples == ("s3", "s4", "t5")
    assert told.ran("t", 6).samples == ("t7", "t8")
    assert told.ran("s", 0, 2).commands == 2
    assert told.ran("s", 4).samples == ("s5", "s6", "s7")
