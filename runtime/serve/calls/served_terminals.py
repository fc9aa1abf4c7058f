"""The call that shows a terminal and types into it."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

from holdfast.base.value_classes import asdict
from holdfast.runtime.api.session import Session
from holdfast.runtime.attachment.terminal_link import Standing, TerminalLink
from holdfast.runtime.guest_rpc.patience import Patience
from holdfast.runtime.serve import event_format
from holdfast.runtime.serve.calls.served_call import OVERHEAD, Emit


class TerminalCall:
    """One terminal, for one channel. Input may come before it is linked."""

    def __init__(self, args: Mapping[str, Any]) -> None:
        self._args = dict(args)
        self._shell = self._args.pop("shell")
        self._lock = threading.Lock()
        self._link: TerminalLink | None = None
        self._early: list[bytes] = []
        self._held = b""

    def __call__(self, found: Session, patience: Patience, emit: Emit | None) -> dict[str, Any]:
        """Follow the terminal until its shell is closed or the patience ends."""
        link = found.terminal_of(self._shell).link(patience=patience, **self._args)
        if emit is not None:
            self._report(link, emit)
        with self._lock:
            self._link = link
            for data in self._early:
                link.type(data)
        return {"reason": link.run()}

    def type(self, data: bytes) -> None:
        """Type bytes; raises as `TerminalLink.type` does."""
        with self._lock:
            if self._link is None:
                self._early.append(data)
            else:
                self._link.type(data)

    def resize(self, rows: int, cols: int) -> None:
        """Report another size of the client's terminal."""
        with self._lock:
            self._args |= {"rows": rows, "cols": cols}
            if self._link is not None:
                self._link.resize(rows, cols)

    def _report(self, link: TerminalLink, emit: Emit) -> None:
        def output(data: bytes, following: int) -> None:
            piece, self._held = event_format.cut(self._held + data)
            if piece:
                told = {"event": "output", **event_format.text("output", piece)}
                emit({**told, "next": following - len(self._held)}, len(piece) + OVERHEAD)

        def standing(value: Standing) -> None:
            emit({"event": "standing", **asdict(value)}, OVERHEAD)

        link.on_output = output
        link.on_standing = standing
        link.on_refused = lambda count: emit({"event": "refused", "bytes": count}, OVERHEAD)
