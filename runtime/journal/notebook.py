"""The cells of a session's kernel as a notebook (nbformat 4.5), made from its journal.

Code and outputs come from the session: outputs that are not valid in a notebook are left out.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any

from holdfast.base import printable_json
from holdfast.base.text import colored, plain
from holdfast.runtime.store.entry import Entry


def notebook(entries: Iterable[Entry], kernel: str, name: str) -> Any:
    """Return the notebook of the cells that ended or began in these entries, in order."""
    v4 = _library().v4
    cells: dict[str, Any] = {}
    for entry in entries:
        of = entry.details
        id_ = of.get("id")
        if not isinstance(id_, str) or of.get("kernel") != kernel:
            continue
        if entry.kind == "cell_started":
            cell = v4.new_code_cell(_text(of.get("code")), execution_count=None, outputs=[])
            cell["id"] = hashlib.sha256(f"{entry.session_id}{id_}".encode("utf-8", "replace")).hexdigest()[
                :16
            ]
            cell["metadata"] = {"holdfast": _about(entry)}
            cells[id_] = cell
        elif entry.kind == "cell_ended" and id_ in cells:
            cell, count = cells[id_], of.get("execution_count")
            cell["execution_count"] = count if _whole(count) else None
            outputs = of.get("outputs")
            shown = (_output(item) for item in (outputs if isinstance(outputs, list) else []))
            cell["outputs"] = [output for output in shown if output is not None]
    book = v4.new_notebook(cells=list(cells.values()))
    book["metadata"] = {
        "kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"},
        "language_info": {"name": "python"},
        "holdfast": {"session": plain(name, 63), "kernel": plain(kernel, 63)},
    }
    return book


def write(book: Any) -> str:
    """Return the notebook as the text of its file.

    Raises:
        ValidationError: it is not valid, which would be a defect of this module.
    """
    library = _library()
    library.validate(book)
    return printable_json.escaped(str(library.writes(book))) + "\n"


def _library() -> Any:
    import nbformat  # not typed

    return nbformat


def _about(entry: Entry) -> dict[str, Any]:
    reason = entry.details.get("reason")
    about = {"seq": entry.seq, "at": entry.time.isoformat(), "actor": entry.actor or ""}
    return {**about, "reason": plain(reason, 500)} if isinstance(reason, str) else about


def _output(item: object) -> Any:
    v4 = _library().v4
    if not isinstance(item, dict):
        return None
    kind = item.get("output_type")
    if kind == "stream":
        name = "stderr" if item.get("name") == "stderr" else "stdout"
        return v4.new_output("stream", name=name, text=_shown(item.get("text")))
    if kind == "error":
        trace = item.get("traceback")
        lines = [_shown(line) for line in trace] if isinstance(trace, list) else []
        names = {"ename": _text(item.get("ename")), "evalue": _text(item.get("evalue"))}
        return v4.new_output("error", **names, traceback=lines)
    data = _bundle(item.get("data"))
    if kind == "display_data" and data:
        return v4.new_output("display_data", data=data)
    if kind == "execute_result" and data:
        count = item.get("execution_count")
        return v4.new_output("execute_result", data=data, execution_count=count if _whole(count) else None)
    return None


def _bundle(data: object) -> Mapping[str, Any]:
    if not isinstance(data, dict):
        return {}
    return {
        kind: value
        for kind, value in data.items()
        if isinstance(kind, str) and (isinstance(value, str) or kind == "application/json")
    }


def _whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _shown(value: object) -> str:
    return colored(_text(value), keep=True)
