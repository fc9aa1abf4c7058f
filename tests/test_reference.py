"""The reference in the docs is what the docstrings say."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent


def test_the_reference_is_made_of_the_docstrings() -> None:
    command = [sys.executable, str(ROOT / "setup" / "reference"), "--check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    page = (ROOT / "docs" / "reference.md").read_text()
    assert all(f"## {name}\n" in page for name in ("Holdfast", "Session", "SessionFiles", "ExecResult"))
    errors = (ROOT / "docs" / "errors.md").read_text()
    assert "## session_not_found\n\n`SessionNotFound` (`SessionError`, `LookupError`), 404" in errors
