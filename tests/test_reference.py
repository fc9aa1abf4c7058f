"""The reference in the docs matches the code."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any, cast

import pytest

import holdfast
from holdfast.runtime.serve import server_app

ROOT = Path(__file__).parent.parent


def load(name: str) -> ModuleType:
    """Return a hook of the documentation, which is in no package."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "setup" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    return server_app.inner(cast("Any", None)).openapi()


def test_the_page_of_errors_is_made_of_the_docstrings() -> None:
    command = [sys.executable, str(ROOT / "setup" / "reference"), "--check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    errors = (ROOT / "docs" / "errors.md").read_text()
    assert "## session_not_found\n\n`SessionNotFound` (`SessionError`, `LookupError`), 404" in errors
    assert "| `internal_error` | 500 | The server failed" in errors


def test_the_page_of_python_has_every_public_class() -> None:
    """Except for the classes with the methods of others; errors have a page of their own."""
    page = load("docs_pages").python_api()
    listed = set(re.findall(r"^::: \S+\.(\w+)$", page, re.M)) | set(re.findall(r"`(\w+)`", page))
    public = {name for name in holdfast.__all__ if isinstance(getattr(holdfast, name), type)}
    assert public - listed == set()
    assert "::: holdfast.runtime.api.session.Session\n" in page


def test_the_page_of_http_has_every_path_and_form(document: dict[str, Any]) -> None:
    """And every link in it leads to a heading."""
    page = load("http_page").page(document)
    headings = re.findall(r"^### (.+)$", page, re.M)
    operations = [f"{m.upper()} {path}" for path, each in document["paths"].items() for m in each]
    assert sorted(headings) == sorted([*operations, *document["components"]["schemas"]])
    assert set(re.findall(r"\]\(#([^)]*)\)", page)) <= {heading.lower() for heading in headings}


def test_a_parameter_is_shown_with_its_type_and_meaning(document: dict[str, Any]) -> None:
    page = load("http_page").page(document)
    part = page.partition("### POST /v1/sessions/{session}/exec\n")[2].partition("\n### ")[0]
    assert "Body: [ExecRequest](#execrequest).\n" in part
    assert "Answer 200: [ExecAnswer](#execanswer) or events (`application/x-ndjson`)" in part
    assert "| `Idempotency-Key` | header | string | Under the same key it runs once;" in part
    form = page.partition("### ExecRequest\n")[2].partition("\n### ")[0]
    assert "| `timeout` | number or null |  | more than 0; less than 1e+09 |" in form
    assert '| `shell` | string |  | default: `"main"` |' in form
