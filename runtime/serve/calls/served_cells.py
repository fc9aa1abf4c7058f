"""Calls of kernels: cells, followed to their end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from holdfast.base.value_classes import as_table
from holdfast.runtime.api import plain_tables
from holdfast.runtime.api.session import Session
from holdfast.runtime.guest_rpc.patience import Patience
from holdfast.runtime.guest_rpc.results import CellEvent, CellResult
from holdfast.runtime.serve.calls.served_call import OVERHEAD, Emit, ServedCall
from holdfast.runtime.serve.models.command_models import CellAnswerRequest, CellQuery, CellRequest


def cell_call(asked: CellRequest, key: str | None) -> ServedCall:
    """Run a cell."""
    how = asked.model_dump(exclude={"code", "patience"}) | {"key": key}

    def run(found: Session, patience: Patience, emit: Emit | None) -> CellResult:
        def begun(cell_id: str) -> None:
            if emit is not None:
                emit({"event": "started", "cell_id": cell_id}, OVERHEAD)

        return found.cell(asked.code, patience=patience, on_start=begun, **how, **_callbacks(emit))

    return _reported(run)


def join_cell_call(cell_id: str, asked: CellQuery) -> ServedCall:
    """Follow a cell that was begun."""

    def run(found: Session, patience: Patience, emit: Emit | None) -> CellResult:
        return found.kernel.join(
            cell_id, after=asked.after, patience=patience, kernel=asked.kernel, **_callbacks(emit)
        )

    return _reported(run)


def answer_cell_call(cell_id: str, asked: CellAnswerRequest) -> ServedCall:
    """Answer a cell, and follow it."""

    def run(found: Session, patience: Patience, emit: Emit | None) -> CellResult:
        asking = CellResult("waiting", None, "", "", cell_id=cell_id, seq=asked.seq)
        return found.kernel.answer(
            asking, asked.text, kernel=asked.kernel, patience=patience, **_callbacks(emit)
        )

    return _reported(run)


def _reported(run: Callable[[Session, Patience, Emit | None], CellResult]) -> ServedCall:
    def call(found: Session, patience: Patience, emit: Emit | None) -> dict[str, Any]:
        told = plain_tables.cell_result(run(found, patience, emit))
        return told if emit is None else told | {"stdout": "", "stderr": "", "outputs": []}

    return call


def _callbacks(emit: Emit | None) -> dict[str, Any]:
    if emit is None:
        return {}
    return {"on_event": lambda event: emit(*_event(event))}


def _event(event: CellEvent) -> tuple[dict[str, Any], int]:
    """Return an event of a cell, and the bytes it counts for."""
    told: dict[str, Any] = {"event": event.kind, "seq": event.seq}
    if event.kind == "stream":
        told |= {"name": event.name, "text": event.text}
    elif event.kind == "input_request":
        told |= {"prompt": event.text, "password": event.password}
    elif event.error is not None:
        told |= as_table(event.error)
    else:
        told |= as_table(event, "kind", "text", "name", "password", "error")
    size = len(event.text) + sum(len(str(each)) for each in event.data.values())
    return told, size + OVERHEAD
