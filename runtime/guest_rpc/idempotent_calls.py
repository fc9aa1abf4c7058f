"""Commands and cells under a key: the calls, and results rebuilt from journal entries."""

from __future__ import annotations

from collections.abc import Mapping

from holdfast.runtime.guest.identity.actor import id_of
from holdfast.runtime.guest_rpc import idempotency, wire_fields
from holdfast.runtime.guest_rpc.results import ENDS, CellEvent, CellResult, ExecResult

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

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
    """Run a command under a key; raises as `idempotency.run` does."""
    order = idempotency.IdempotentCall(key, "exec", shell, command)
    return idempotency.run(context, session, order, call, lambda began, ended: _exec(key, began, ended))


def cell_once(
    context: Context,
    session: SessionRow,
    key: str,
    code: str,
    kernel: str,
    call: Callable[[], CellResult],
) -> CellResult:
    """Run a cell under a key; raises as `idempotency.run` does."""
    order = idempotency.IdempotentCall(key, "cell", kernel, code)
    return idempotency.run(context, session, order, call, lambda _, ended: _cell(ended))


def _exec(key: str, began: Mapping[str, Any], ended: Mapping[str, Any]) -> ExecResult:
    """Rebuild a command's result; its output is gone with the session."""
    start, end = idempotency.count(began, "offset"), idempotency.count(ended, "end_offset")
    return ExecResult(
        exit_code=wire_fields.optional_integer(ended, "exit_code", -255),
        signal=wire_fields.optional_integer(ended, "signal"),
        output=b"",
        start_offset=start,
        end_offset=end,
        timed_out=wire_fields.flag(ended, "timed_out"),
        shell_exited=wire_fields.flag(ended, "shell_exited"),
        incomplete=wire_fields.flag(ended, "incomplete"),
        duration=wire_fields.number(ended, "duration"),
        lost=max(0, end - start),
        command_id=id_of(key),
        recorded=True,
    )


def _cell(ended: Mapping[str, Any]) -> CellResult:
    """Rebuild a cell's result from what the journal kept of it."""
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
        status=wire_fields.choice(ended, "status", (*ENDS, "waiting")),
        execution_count=wire_fields.optional_integer(ended, "execution_count"),
        stdout=texts["stdout"],
        stderr=texts["stderr"],
        outputs=tuple(outputs),
        duration=wire_fields.number(ended, "duration"),
        recorded=True,
    )
