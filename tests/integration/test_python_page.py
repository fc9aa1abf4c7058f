"""The examples on the pages about Python are true."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

from tests.integration.conftest import Cli
from tests.integration.served import serving

from holdfast import Holdfast
from holdfast.base.home import Home

DOCS = Path(__file__).parents[2] / "docs"


def test_the_page_about_python_is_true(hf: Holdfast) -> None:
    assert compared((DOCS / "python.md").read_text()) >= 15
    assert hf.sessions() == []


def test_the_page_about_clients_is_true(hf: Holdfast, cli: Cli, home: Home) -> None:
    with serving(cli, home) as server:
        text = (DOCS / "client.md").read_text().replace("http://127.0.0.1:8420", server.url)
        assert compared(text) == 8
    assert (hf.sessions(), hf.snapshots()) == ([], [])


def compared(page: str) -> int:
    """Check that each line gives the value written after it, from the first to the last, in one program."""
    names: dict[str, Any] = {}
    count = 0
    for code in re.findall(r"^```python\n(.*?)^```$", page, re.M | re.S):
        lines = code.splitlines()
        for statement in ast.parse(code).body:
            if not isinstance(statement, ast.Expr):
                exec(compile(ast.Module([statement], []), "page", "exec"), names)
                continue
            value = eval(compile(ast.Expression(statement.value), "page", "eval"), names)
            _, said, expected = lines[statement.lineno - 1].rpartition("  # ")
            if said:
                assert repr(value) == repr(ast.literal_eval(expected)), lines[statement.lineno - 1]
                count += 1
    names["hf"].close()
    return count
