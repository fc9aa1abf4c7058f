"""Records the cells of one kernel with their code and outputs, so that a notebook can be made of them.

It follows events and decides nothing. Outputs have the form of a notebook's (nbformat 4), within a limit.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Mapping
from typing import Any

from holdfast.kernels.guest.messages import Cell
from holdfast.runtime.guest.identity.actor import Who
from holdfast.runtime.guest.records.journal import Journal
from holdfast.runtime.guest.records.keyed import Keyed
from holdfast.runtime.guest.wire.protocol import Frame

MAX_CODE = 256 << 10
MAX_OUTPUT = 128 << 10
"""Bytes of a cell's outputs that are kept; later output is left out."""
KEPT_TYPES = (
    "text/plain",
    "text/html",
    "text/markdown",
    "text/latex",
    "application/json",
    "image/png",
    "image/jpeg",
    "image/svg+xml",
)


class Outputs:
    """The outputs of a cell, as a notebook keeps them."""

    def __init__(self) -> None:
        self.items: list[dict[str, Any]] = []
        self.cut = False
        self._room = MAX_OUTPUT
        self._clear_next = False

    def add(self, event: Frame) -> None:
        """Add an event of the cell."""
        if event.event == "clear_output":
            if _body(event).get("wait"):
                self._clear_next = True
            else:
                self._clear()
            return
        if event.event not in ("stream", "execute_result", "display_data", "error_output"):
            return
        if self._clear_next:
            self._clear()
        if self.cut or len(event.payload) > self._room:
            self.cut = True
            return
        self._room -= len(event.payload) + 50
        if event.event == "stream":
            self._stream(str(event.head.get("name")), event.payload.decode("utf-8", "replace"))
        elif event.event == "error_output":
            self.items.append({"output_type": "error", **_body(event)})
        else:
            self._display(event.event, _body(event))

    def _stream(self, name: str, text: str) -> None:
        name = "stderr" if name == "stderr" else "stdout"
        last = self.items[-1] if self.items else {}
        if last.get("output_type") == "stream" and last["name"] == name:
            last["text"] += text
        else:
            self.items.append({"output_type": "stream", "name": name, "text": text})

    def _display(self, kind: str, body: dict[str, Any]) -> None:
        data = body.get("data")
        kept = {key: data[key] for key in KEPT_TYPES if key in data} if isinstance(data, dict) else {}
        item: dict[str, Any] = {"output_type": kind, "data": kept, "metadata": {}}
        if kind == "execute_result":
            item["execution_count"] = body.get("execution_count")
        self.items.append(item)

    def _clear(self) -> None:
        self.items, self.cut, self._room, self._clear_next = [], False, MAX_OUTPUT, False


class CellJournal:
    """The cells of one kernel, as they begin and end."""

    def __init__(self, kernel: str, journal: Journal, keyed: Keyed) -> None:
        self._kernel = kernel
        self._journal = journal
        self._keyed = keyed
        self._open: dict[str, tuple[Who, Outputs, float]] = {}

    def begun(self, cell: Cell, code: str, who: Who, sent: float) -> None:
        """Note that the kernel has the cell's code, sent at a time in Unix seconds."""
        self._open[cell.id] = (who, Outputs(), _now())
        kept = code.encode("utf-8", "replace")[:MAX_CODE].decode("utf-8", "ignore")
        self._journal.append(
            "cell_started",
            id=cell.id,
            kernel=self._kernel,
            actor=who.actor,
            reason=who.reason,
            request=who.request,
            key=who.key,
            epoch=cell.epoch,
            not_before=sent,
            code=kept,
            code_bytes=len(code.encode("utf-8", "replace")) if len(kept) < len(code) else None,
        )

    def adopt(self, cell: Cell, who: Who, began: float, events: Iterable[Frame]) -> None:
        """Continue with a cell that another supervisor has sent, and its events so far.

        `began` is a time of the loop's clock.
        """
        outputs = Outputs()
        self._open[cell.id] = (who, outputs, began)
        for event in events:
            outputs.add(event)

    def heard(self, cell: Cell, event: Frame) -> None:
        """Note an output of the cell."""
        if found := self._open.get(cell.id):
            found[1].add(event)

    def waits(self, cell: str, state: Mapping[str, Any]) -> None:
        """Note that the cell asks for input."""
        self._journal.append("waiting", kernel=self._kernel, id=cell, state=state)

    def answered(self, cell: Cell, who: Who, text: str, *, password: bool) -> None:
        """Note that the cell's question was answered."""
        self._journal.append(
            "input",
            kernel=self._kernel,
            id=cell.id,
            actor=who.actor,
            bytes=len(text.encode("utf-8", "replace")),
            hidden=password,
            text=None if password else text[:4000],
        )

    def look(self, cell: Cell, who: Who) -> None:
        """Write down the cell's end, once, if it has ended."""
        if not cell.over:
            return
        found = self._open.pop(cell.id, None)
        if found is None:
            if who.key is not None and not cell.started:
                self._keyed.forget(cell.id)
            return
        _, outputs, began = found
        result = {
            "status": str(cell.status),
            "execution_count": cell.execution_count,
            "epoch": cell.epoch,
            "duration": round(_now() - began, 6),
        }
        if who.key is not None:
            self._keyed.end(cell.id, **result)
        self._journal.append(
            "cell_ended",
            id=cell.id,
            kernel=self._kernel,
            actor=who.actor,
            key=who.key,
            **result,
            outputs=outputs.items,
            outputs_cut=outputs.cut or None,
        )


def _now() -> float:
    return asyncio.get_running_loop().time()


def _body(event: Frame) -> dict[str, Any]:
    try:
        body = json.loads(event.payload) if event.payload else {}
    except ValueError:
        return {}
    return body if isinstance(body, dict) else {}
