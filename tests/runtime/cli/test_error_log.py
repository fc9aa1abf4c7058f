"""An unexpected error is one line, and its traceback is in a file that holds no secret."""

from __future__ import annotations

import base64
import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.runtime.cli import error_log

SECRET = "hunter2-hunter2"
KEY = base64.b64encode(bytes(range(192))).decode()
"""Of the length and the variety that a key has."""
PROGRAM = """
import sys
from holdfast.runtime.cli import command_line, main

def fail(given):
    raise KeyError("of the value hunter2-hunter2")

command_line.prepared = fail
sys.argv = ["holdfast", *sys.argv[1:]]
main.main()
"""


def _run(home: Path, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", PROGRAM, *words],
        env={**os.environ, "HOLDFAST_HOME": str(home), "MY_TOKEN": SECRET, **environment},
        capture_output=True, text=True, check=False,
    )  # fmt: skip


def test_a_line_names_the_file_that_has_the_traceback(tmp_path: Path) -> None:
    done = _run(tmp_path / "home", "ls")
    log = tmp_path / "home" / "errors.log"
    kept = log.read_text()

    assert done.returncode == 1
    assert done.stderr.splitlines() == [
        "holdfast: cannot continue because of an error in Holdfast itself: KeyError: 'of the value ***'",
        f"  hint: its traceback is in {log}; a report of it helps",
    ]
    assert "Traceback (most recent call last)" in kept
    assert "in fail" in kept
    assert SECRET not in kept + done.stderr
    assert stat.S_IMODE(log.stat().st_mode) == 0o600


@pytest.mark.parametrize("error", ["ValueError('built badly')", "OSError(2, 'unread')", "OSError(5, 'lost')"])
def test_an_interrupt_that_became_a_different_error_is_still_one(tmp_path: Path, error: str) -> None:
    """A library in C reports a KeyboardInterrupt, during an import for instance, as an error of its own."""
    program = PROGRAM.replace(
        "def fail(given):", "def fail(given):\n    return interrupted\n\ndef interrupted():"
    )
    program = program.replace(
        '    raise KeyError("of the value hunter2-hunter2")',
        "    import os, signal\n    try:\n        os.kill(os.getpid(), signal.SIGINT)\n"
        "        signal.pause()\n    except KeyboardInterrupt:\n        pass\n"
        f"    raise {error}",
    )
    done = subprocess.run(
        [sys.executable, "-c", program, "ls"],
        env={**os.environ, "HOLDFAST_HOME": str(tmp_path)},
        capture_output=True, text=True, check=False,
    )  # fmt: skip

    assert (done.returncode, done.stderr) == (130, "holdfast: interrupted\n")
    assert not (tmp_path / "errors.log").exists()


def test_a_program_gets_an_object(tmp_path: Path) -> None:
    done = _run(tmp_path / "home", "ls", "--json", HOLDFAST_LOG=str(tmp_path / "mine"))

    assert json.loads(done.stderr)["error"]["code"] == "internal_error"
    assert "KeyError" in (tmp_path / "mine").read_text()
    assert not (tmp_path / "home" / "errors.log").exists()


def test_without_a_place_for_it_the_traceback_is_shown(tmp_path: Path) -> None:
    done = _run(tmp_path, "ls", HOLDFAST_LOG=str(tmp_path))

    assert done.returncode == 1
    assert "Traceback" in done.stderr
    assert "no log could be written (IsADirectoryError)" in done.stderr
    assert SECRET not in done.stderr


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (["new", "--env", f"PLAIN={SECRET}"], f"ValueError: {SECRET}"),
        (["new", f"--secret=PLAIN={SECRET}"], f"ValueError: {SECRET!r}"),
        (["exec", "work", f"login {SECRET}"], f"ValueError: near 'login {SECRET}'"),
        (["ls"], "ValueError: ghp_0123456789abcdefghijABCDEFGHIJ012345"),
        (["ls"], f"ValueError: https://ada:{SECRET}@example.org/"),
        (["ls"], f"-----BEGIN PRIVATE KEY-----\n{SECRET}{KEY}\n-----END PRIVATE KEY-----"),
    ],
    ids=["--env", "--secret=", "command", "token", "address", "key"],
)
def test_secrets_of_the_command_line_are_removed(given: list[str], text: str) -> None:
    found = error_log.without_secrets(text, given)

    assert found is not None
    assert SECRET not in found
    assert "ghp_" not in found


def test_the_homes_log_stays_small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The newest entries are kept, and begin with a whole one."""
    monkeypatch.setenv("HOLDFAST_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("HOLDFAST_LOG", raising=False)
    monkeypatch.setattr(error_log, "MOST", 4000)
    for number in range(60):
        error_log.report(ValueError(f"{number} " + "x" * 100), ["ls"], as_json=False)
    kept = (tmp_path / "home" / "errors.log").read_text()

    assert len(kept) < 5000
    assert "ValueError: 59 " in kept
    assert " Holdfast " in kept.partition("\n")[0]
