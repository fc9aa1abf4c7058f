"""One run: a command in a copy, in the captured shell's directory, followed to its end, limit or question."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from holdfast.base.text import plain
from holdfast.errors import HoldfastError, InvalidArgument, SessionBusy
from holdfast.runtime.flaky import output_masking
from holdfast.runtime.flaky.spread import End, Run
from holdfast.runtime.guest import layout
from holdfast.runtime.guest_rpc.patience import Patience
from holdfast.runtime.guest_rpc.shell_calls import ShellCall

if TYPE_CHECKING:
    from holdfast.runtime.guest_rpc.results import ExecResult
    from holdfast.runtime.guest_rpc.session_channel import SessionChannel
    from holdfast.runtime.store.rows import SessionRow


class _Patient(ShellCall):
    """A command that keeps running when its caller's time limit has passed, to be inspected as it hangs."""

    def __init__(self, line: SessionChannel, command: str, patience: float | None) -> None:
        limit = Patience(patience)
        limit.begin()  # now, and not when it has begun
        super().__init__(
            line.client(),
            line.reconnection(),
            command,
            shell=layout.MAIN,
            timeout=None,
            patience=limit,
            on_bytes=lambda _data: None,  # only keeps the end
        )


def run(
    row: SessionRow,
    line: SessionChannel,
    number: int,
    command: str,
    limit: float | None,
    beside: Callable[[str, float | None], ExecResult],
) -> Run:
    """Run a command in a copy; every outcome is a result.

    Args:
        row: the copy.
        line: how it is reached.
        number: of the run.
        command: text for its shell.
        limit: seconds after which it has not ended; None for as long as it takes.
        beside: runs a command beside what has the shell, within a limit.

    Raises:
        InvalidArgument: it cannot be run anywhere.
    """
    started = time.monotonic()
    apart = False
    try:
        try:
            with line.explained():
                result = _Patient(line, command, limit).run()
        except SessionBusy:
            # The captured command still runs in the shell: run this one beside it.
            apart = True
            result = beside(command, limit)
    except InvalidArgument:
        raise
    except HoldfastError as error:
        ended = plain(str(error).rpartition(": ")[2], 200)
        return Run(number, "died", detail=ended, duration=time.monotonic() - started, apart=apart)
    end, code, detail = _end(result)
    lines = output_masking.lines(result.output)
    names = tuple(name for name in (row.name, row.id, (row.container_id or "")[:12]) if name)
    return Run(
        number,
        end,
        code,
        detail,
        time.monotonic() - started,
        tuple(lines),
        names,
        output_masking.digest(lines, names),
        apart,
    )


def _end(result: ExecResult) -> tuple[End, int | None, str]:
    if result.waiting is not None:
        return "waiting", None, plain(result.waiting.detail or "", 60)
    if result.shell_exited and result.exit_code is None:
        return "shell ended", None, ""
    if result.signal is not None:
        return "signal", result.signal, ""
    if result.exit_code is None:
        return "timeout", None, ""
    return "exit", result.exit_code, ""
