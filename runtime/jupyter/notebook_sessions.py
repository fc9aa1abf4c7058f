"""Notebooks that front ends have open: `/api/sessions` of a Jupyter server, which some want beside kernels.

VS Code and everything else that is built on @jupyterlab/services begins its work in a notebook with such a
"session": the notebook's path joined to a kernel. They are kept while the server runs, and are lists of names
only: to end one leaves its kernel as it is. It knows neither files nor sessions of Holdfast.
"""

from __future__ import annotations

import uuid
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from holdfast.base.text import plain
from holdfast.errors import InvalidArgument, KernelNotFound
from holdfast.runtime.jupyter.kernel_table import GatewayKernel

MOST = 1024
LONGEST = 1024
TYPES = ("notebook", "console", "file")


@dataclass(frozen=True, slots=True)
class NotebookSession:
    """A notebook that is open, and the id of its kernel."""

    id: str
    path: str
    name: str
    type: str
    kernel: str

    def model(self, kernel: Mapping[str, Any]) -> dict[str, Any]:
        """Return its description for clients; `kernel` is that of its kernel."""
        notebook = {"path": self.path, "name": self.name}
        known = {"id": self.id, "path": self.path, "name": self.name, "type": self.type}
        return {**known, "kernel": dict(kernel), "notebook": notebook}


class NotebookSessions:
    """The open notebooks of one server; the oldest are forgotten first."""

    def __init__(self) -> None:
        self._known: OrderedDict[str, NotebookSession] = OrderedDict()

    def of(self, kernels: Mapping[str, GatewayKernel]) -> list[NotebookSession]:
        """Return those whose kernels are among these, by their ids."""
        return [each for each in self._known.values() if each.kernel in kernels]

    def find(self, id_: str) -> NotebookSession:
        """Return one.

        Raises:
            KernelNotFound: there is none with that id.
        """
        if (found := self._known.get(id_)) is None:
            raise KernelNotFound(f"cannot find notebook session {plain(id_, 64)}: there is none with that id")
        return found

    def open(self, body: Mapping[str, Any], kernel: str) -> NotebookSession:
        """Join a notebook to a kernel; the one that is there already is returned.

        Raises:
            InvalidArgument: the request names no path, or fields of it are not short texts.
        """
        asked = described(body)
        if not asked.get("path"):
            raise InvalidArgument("cannot open a notebook: the request does not name its path")
        for each in self._known.values():
            if (each.path, each.kernel) == (asked["path"], kernel):
                return each
        made = NotebookSession(
            str(uuid.uuid4()), asked["path"], asked.get("name", ""), asked.get("type", TYPES[0]), kernel
        )
        self._known[made.id] = made
        while len(self._known) > MOST:
            self._known.popitem(last=False)
        return made

    def change(self, session: NotebookSession, body: Mapping[str, Any], kernel: str) -> NotebookSession:
        """Rename a notebook, or join it to a different kernel; raises as `open` does."""
        self._known[session.id] = changed = replace(session, **described(body), kernel=kernel)
        return changed

    def close(self, session: NotebookSession) -> None:
        """Forget a notebook."""
        self._known.pop(session.id, None)


def described(body: Mapping[str, Any]) -> dict[str, str]:
    """Return the path, name and type that a request gives.

    Raises:
        InvalidArgument: one is not a short text.
    """
    found = {name: body[name] for name in ("path", "name", "type") if body.get(name) is not None}
    if not all(isinstance(value, str) and len(value) <= LONGEST for value in found.values()):
        raise InvalidArgument(f"cannot open a notebook: its path, name and type are texts of up to {LONGEST}")
    if found.get("type", TYPES[0]) not in TYPES:
        raise InvalidArgument(f"cannot open a notebook: its type is one of {', '.join(TYPES)}")
    return found
