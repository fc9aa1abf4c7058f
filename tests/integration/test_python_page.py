"""The examples of docs/python.md are true."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

from holdfast import Holdfast

PAGE = Path(__file__).parents[2] / "docs" / "python.md"


def test_the_page_about_python_is_true(hf: Holdfast) -> None:
    """Each line gives the value written after it, from the first to the last, in one program."""
    names: dict[str, Any] = {}
    compared = 0
    for code in re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.M | re.S):
        lines = code.splitlines()
        for statement in ast.parse(code).body:
            if not isinstance(statement, ast.Expr):
                exec(compile(ast.Module([statement], []), str(PAGE), "exec"), names)
                continue
            value = eval(compile(ast.Expression(statement.value), str(PAGE), "eval"), names)
            _, said, expected = lines[statement.lineno - 1].rpartition("  # ")
            if said:
                assert repr(value) == repr(ast.literal_eval(expected)), lines[statement.lineno - 1]
                compared += 1

    assert compared >= 15
    names["hf"].close()
    assert hf.sessions() == []
