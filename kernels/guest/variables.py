"""The names a user has in a kernel: the question, and the parsing of the answer. Pure.

The question is one expression, evaluated by a silent request that leaves no trace: neither in the history nor
in the namespace. What is run in the kernel is `look_inside.py`, as text: its Python may be a different one.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from holdfast.base.value_classes import dataclass, replace

KEY = "holdfast"
LIMIT = 500
"""Limit of reported names; of a kernel with more, the newest."""
PATIENCE = 1.0
"""Seconds an idle kernel may take; it may run something else in its loop."""
_MAX_ANSWER = 4 << 20


@dataclass(frozen=True, slots=True)
class VariableReader:
    """A kernel's variables. Rows have name, type, kind, identity; length, bytes, shape, dtype, digest where
    known.

    `current` is False if the kernel could not be asked now: then the rows are as of cell `as_of`, or `note`
    says why nothing is known. `identity` changes whenever the name stands for another object; `digest`
    whenever a number or a text changes.
    """

    rows: tuple[Mapping[str, Any], ...] = ()
    left_out: int = 0
    as_of: int | None = None
    current: bool = False
    note: str = ""

    def as_dict(self) -> dict[str, Any]:
        """Return it for the wire."""
        return {
            "rows": [dict(row) for row in self.rows],
            "left_out": self.left_out,
            "as_of": self.as_of,
            "current": self.current,
            "note": self.note,
        }

    def stale(self) -> VariableReader:
        """Return it marked as known from before."""
        return replace(self, current=False)


@cache
def expressions(limit: int = LIMIT) -> dict[str, str]:
    """Return the expressions of the request. Names of the user's, such as `eval`, change nothing."""
    source = Path(__file__).with_name("look_inside.py").read_text("utf-8")
    return {
        KEY: f"(lambda b, shell, own: (b.exec({source!r}, own), "
        f"own['look'](shell.user_ns, shell.user_ns_hidden, {limit}))[1])"
        "(__import__('builtins'), __import__('IPython').get_ipython(), {})"
    }


def parse(content: Mapping[str, Any], as_of: int) -> VariableReader:
    """Return the variables in a reply."""
    try:
        found = content["user_expressions"][KEY]
        if found["status"] != "ok":
            return VariableReader(
                note=f"the kernel could not list them: {str(found.get('ename', '?'))[:100]}"
            )
        text = found["data"]["text/plain"]
        if len(text) > _MAX_ANSWER:
            return VariableReader(note="the kernel's answer is too long")
        value = json.loads(ast.literal_eval(text))
        rows = tuple(row for row in value["rows"] if isinstance(row.get("name"), str))
        return VariableReader(rows, int(value["left_out"]), as_of, current=True)
    except (KeyError, TypeError, ValueError, AttributeError, SyntaxError, RecursionError, MemoryError):
        return VariableReader(note="the kernel's answer is not valid")
