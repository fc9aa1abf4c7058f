"""Commands and cells under a key: the calls, and results made of what a journal tells of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast, get_args

from holdfast.errors import GuestError
from holdfast.runtime import fields, keyed
from holdfast.runtime.guest.actor import id_of
from holdfast.runtime.results import CellEvent, CellResult, CellStatus, ExecResult

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.runtime.operations.context import Context
    from holdfast.runtime.store.rows import SessionRow


def exec_once(
    context: Context,
    session: SessionRow,
    key: str,
    command: str,
    shell: str,
    call: Callable[[], ExecResult],
) -> ExecResult:
    """Run a command under a key. Raises as `keyed.run`."""
    order = keyed.Order(key, "exec", shell, command)
    return keyed.run(context, session, order, call, lambda began, ended: _exec(key, began, ended))


def cell_once(
    context: Context,
    session: SessionRow,
    key: str,
    code: str,
    kernel: str,
    call: Callable[[], CellResult],
) -> CellResult:
    """Run a cell under a key. Raises as `keyed.run`."""
    order = keyed.Order(key, "cell", kernel, code)
    return keyed.run(context, session, order, call, lambda _, ended: _cell(ended))


def _exec(key: str, began: Mapping[str, Any], ended: Mapping[str, Any]) -> ExecResult:
    """The output is gone with the session."""
    frame = keyed.checked(ended)
    start, end = keyed.count(began, "offset"), keyed.count(ended, "end_offset")
    return ExecResult(
        exit_code=fields.optional_integer(frame, "exit_code", -255),
        signal=fields.optional_integer(frame, "signal"),
        output=b"",
        start_offset=start,
        end_offset=end,
        timed_out=fields.flag(frame, "timed_out"),
        shell_exited=fields.flag(frame, "shell_exited"),
        incomplete=fields.flag(frame, "incomplete"),
        duration=fields.number(frame, "duration"),
        lost=max(0, end - start),
        command_id=id_of(key),
        recorded=True,
    )


def _cell(ended: Mapping[str, Any]) -> CellResult:
    """What the journal kept of what it showed."""
    frame = keyed.checked(ended)
    status = fields.text(frame, "status")
    if status not in get_args(CellStatus):
        raise GuestError("cannot tell how the cell ended: the session reported an unknown state")
    shown = [item for item in ended.get("outputs") or [] if isinstance(item, dict)]
    texts = {"stdout": "", "stderr": ""}
    outputs = []
    for number, item in enumerate(shown, start=1):
        kind, data = item.get("output_type"), item.get("data")
        if kind == "stream" and item.get("name") in texts and isinstance(item.get("text"), str):
            texts[item["name"]] += item["text"]
        elif kind in ("execute_result", "display_data") and isinstance(data, dict):
            outputs.append(CellEvent(kind, number, data=data))
    return CellResult(
        status=cast("CellStatus", status),
        execution_count=fields.optional_integer(frame, "execution_count"),
        stdout=texts["stdout"],
        stderr=texts["stderr"],
        outputs=tuple(outputs),
        duration=fields.number(frame, "duration"),
        recorded=True,
    )
