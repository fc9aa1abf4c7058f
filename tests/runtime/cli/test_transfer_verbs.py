"""`holdfast key`: its output, for people and for programs. No engine is needed for it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from holdfast.runtime.cli.command_line import call

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    monkeypatch.setenv("HOLDFAST_HOME", str(tmp_path / "home"))

    def running(*words: str, **environment: str) -> tuple[int, str, str]:
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        code = call(["key", *words])
        said = capsys.readouterr()
        return code, said.out, said.err

    return running


def _json(run: Run, *words: str) -> Any:
    code, out, _ = run(*words, "--json")
    assert code == 0
    return json.loads(out)


def test_a_new_key_says_how_to_trust_it(run: Run) -> None:
    """With the command for the other machine."""
    code, out, err = run("new")
    name, public = out.split()

    assert (code, name) == (0, "default")
    assert f"holdfast key trust {public}" in err
    assert run("new")[0] == 1


def test_keys_are_listed_with_their_use(run: Run) -> None:
    """Own ones with their public half for encryption, never with their private halves."""
    own = _json(run, "new", "mine")
    other = "ed25519:" + "A" * 43
    trusted = _json(run, "trust", other, "--name", "friend")
    listed = _json(run, "list")

    assert [(one["name"], one["own"]) for one in listed] == [("mine", True), ("friend", False)]
    assert listed == [own, trusted]
    assert own["recipient"].startswith("x25519:")
    code, out, _ = run("list")
    assert code == 0
    assert {"signs", "trusted"} <= set(out.split())
    assert "PRIVATE" not in out


def test_a_key_is_forgotten(run: Run) -> None:
    """By name, or by its fingerprint; the second time there is none."""
    other = "ed25519:" + "B" * 43
    run("trust", other)
    assert _json(run, "rm", other)["key"] == other
    code, _, err = run("rm", other)
    assert (code, _json(run, "list")) == (1, [])
    assert "no key has that name" in err


def test_without_a_terminal_a_passphrase_comes_from_the_environment(run: Run, tmp_path: Path) -> None:
    """The written file is encrypted then."""
    code, _, _ = run("new", "--passphrase", HOLDFAST_KEY_PASSPHRASE="correct horse")

    assert code == 0
    assert "ENCRYPTED" in (tmp_path / "home/keys/default.pem").read_text()
    assert _json(run, "list")[0]["passphrase"] is True


def test_malformed_keys_are_refused_with_an_example(run: Run) -> None:
    """As an object for programs."""
    code, _, err = run("trust", "\x1b[2Jevil", "--json")

    assert code == 1
    error = json.loads(err)["error"]
    assert "ed25519:" in error["hint"]
    assert "\x1b" not in err
