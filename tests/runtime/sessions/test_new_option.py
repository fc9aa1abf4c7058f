"""A new option of sessions is described in three files, and every place that has options offers it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import holdfast

CHANGES = {
    "runtime/sessions/session_options.py": (
        "    python: Annotated[str,",
        "    nickname: Annotated[str, Field(max_length=40)] | None = None\n",
    ),
    "runtime/sessions/option_table.py": (
        '    SessionOption("memory",',
        '    SessionOption("nickname", "A second name.", exported=True, taken_over=True),\n',
    ),
    "runtime/api/option_types.py": ("    python: str | None\n", "    nickname: str | None\n"),
}
"""For each file that describes an option: a line, and what is written in front of it."""
OFFERS = """
import inspect, json
from holdfast.runtime.cli import help_pages, verb_table
from holdfast.runtime.client.aio.async_holdfast import AsyncHoldfast
from holdfast.runtime.serve.models.session_models import SessionRequest
from holdfast.runtime.sessions import option_table
from holdfast.runtime.sessions.session_options import SessionOptions

verbs = ("new", "ci run", "mcp")
flags = [verb for verb in verbs if "--nickname" in help_pages.of_verb(verb_table.load(verb), 80)]
tables = (option_table.MOVING, option_table.REPEATED, option_table.EXPORTED, option_table.TAKEN_OVER)
asked = SessionRequest.model_validate({"nickname": "joe"}).options()
print(json.dumps({
    "flags": flags,
    "tables": ["nickname" in table for table in tables],
    "request": asked,
    "limits": SessionRequest.model_json_schema()["properties"]["nickname"]["anyOf"][0],
    "options": SessionOptions.parse(**asked).nickname,
}))
"""


@pytest.fixture
def changed(tmp_path: Path) -> Path:
    """Return a folder with a copy of the package in which sessions have one option more."""
    package = tmp_path / "holdfast"
    shutil.copytree(
        Path(holdfast.__file__).parent, package, ignore=shutil.ignore_patterns("__pycache__", "built")
    )
    for name, (line, added) in CHANGES.items():
        text = (package / name).read_text()
        assert text.count(line) == 1
        (package / name).write_text(text.replace(line, added + line))
    return tmp_path


def test_an_option_that_is_described_is_offered_everywhere(changed: Path) -> None:
    """By the verbs that start sessions, over HTTP with its limits, in moves, exports and imports."""
    done = subprocess.run(
        [sys.executable, "-c", OFFERS],
        env={**os.environ, "PYTHONPATH": str(changed)},
        cwd=changed,
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(done.stdout) == {
        "flags": ["new", "ci run", "mcp"],
        "tables": [True] * 4,
        "request": {"nickname": "joe"},
        "limits": {"maxLength": 40, "type": "string"},
        "options": "joe",
    }
