"""A command in the session's shell: its output as it comes, its outcome, and the exit code.

Knows nothing of options; loads no Typer.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping

from holdfast.runtime.cli import printing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from holdfast.runtime.api.session import Session
    from holdfast.runtime.guest_rpc.results import ExecResult

WAITS = 75
"""Exit code for a command that waits: EX_TEMPFAIL of sysexits.h, "try again later"."""
SIGNALLED = 128
"""Added to the number of the signal that ended something, as shells do."""


def run(found: Session, text: str, how: Mapping[str, Any], *, as_json: bool, raw: bool) -> int:
    """Run a command, show its output, and return the exit code; `how` as for `Session.exec`."""
    if as_json:
        return report(found, found.exec(text, **how), how["shell"], as_json=True)
    try:
        with printing.guest_output(raw=raw) as show:
            result = found.exec(text, **how, on_bytes=show)
    except BrokenPipeError:
        # Without a reader, a writing command would hold the shell forever.
        found.interrupt(patience=0, shell=how["shell"])
        raise
    if result.timed_out:
        printing.note(f"the command was interrupted after {how['timeout']:g} s")
    return report(found, result, how["shell"])


def report(found: Session, result: ExecResult, shell: str, *, as_json: bool = False) -> int:
    """Report the outcome of a command, apart from its output, and return the exit code."""
    if as_json:
        from holdfast.runtime.api import plain_tables

        fields = {"id": found.id, "name": found.name, **plain_tables.exec_result(result)}
        from holdfast.runtime.cli import long_json

        long_json.emit(fields, "output", result.output)
    else:
        notes(found, result, shell)
    if result.waiting:
        return WAITS
    if result.timed_out or result.running:
        return 124
    if (
        result.exit_code is None
    ):  # its shell ended: by a signal, as shells report it, or in a way that is not known
        return 1 if result.signal is None else SIGNALLED + result.signal
    return result.exit_code & 0xFF


def notes(found: Session, result: ExecResult, shell: str) -> None:
    """Tell what the caller should know of an outcome."""
    if result.recorded:
        printing.note("it ran before under this key; this is its recorded result")
    if result.lost and result.recorded:
        printing.note(f"{printing.size(result.lost)} of its output are no longer kept")
    elif result.lost:
        printing.note(
            f"{printing.size(result.lost)} of the output were lost: it came faster than it was read"
        )
    if result.message:
        printing.note(result.message)
    for event in result.news:
        printing.note(f"since your last command: {event.text}; `holdfast events {found.name}`")
    if result.shell_exited and not result.message:
        printing.note("the shell ended; the next command gets a new one")
    if result.running:
        _note_running(found, result, shell)


def _note_running(found: Session, result: ExecResult, shell: str) -> None:
    from holdfast.base.suggestion import command
    from holdfast.runtime.guest.layout import MAIN
    from holdfast.runtime.guest_rpc.wait_state import advice

    if result.output and not result.output.endswith(b"\n"):
        sys.stderr.write("\n")  # end the line of a prompt
    info = found.shell(shell)
    mine = info.command_id == result.command_id
    state = result.waiting or (info.observed if mine else None)
    printing.note(state.phrase(time.time()) if state and state.pid else "the command still runs")
    if result.waiting:
        printing.note(advice(found.name, result.waiting, "" if mine else result.command_id, shell))
    else:
        where = ["--shell", shell] if shell != MAIN else []
        printing.note(f"`{command('wait', found.name, result.command_id, *where)}` follows it")
