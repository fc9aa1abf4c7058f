"""Which shell is chosen, among real ones and programs that only have their names."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

import pytest

from holdfast.runtime.guest.identity.account import UserAccount
from holdfast.runtime.guest.shells import shell_program
from holdfast.runtime.guest.shells.shell_program import ShellKind, choose

ME = UserAccount.of(None)
ROOM = "for i in $(seq 2000); do echo filling; done\n"


@pytest.fixture
def own(tmp_path: Path) -> str:
    """The bash that a portable guest brought along."""
    path = tmp_path / "own-bash"
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return str(path)


def image_bash(folder: Path, monkeypatch: pytest.MonkeyPatch, script: str, name: str = "bash") -> str:
    """Put a program first on the PATH of the image."""
    path = folder / "bin" / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    monkeypatch.setenv("PATH", f"{path.parent}:/usr/bin:/bin")
    return str(path)


def test_an_image_of_ours_has_the_bash_that_it_was_built_with(tmp_path: Path, marks_library: Path) -> None:
    for wanted in (None, "bash", "holdfast"):
        found = choose(wanted, ME, marks_library, own=str(tmp_path / "none"))
        assert (found.kind, found.path, found.remark) == (ShellKind.BASH, "/bin/bash", "")


def test_the_bash_of_the_image_is_used_if_it_loads_the_marks(own: str, marks_library: Path) -> None:
    path = shutil.which("bash", path="/usr/bin:/bin")
    for wanted in (None, "bash", path):
        assert choose(wanted, ME, marks_library, own).path == shutil.which(wanted or "bash")
    assert choose("holdfast", ME, marks_library, own).path == own


@pytest.mark.parametrize(
    ("script", "why"),
    [
        ("exit 1", "it cannot load the builtin that marks its prompts"),
        (
            "echo no such builtin; exit 1",
            ("it cannot load the builtin that marks its prompts (no such builtin)"),
        ),
        ("printf '\\nloaded 4.2.46(2)-release'", "it is version 4.2.46(2)-release"),
        ("printf '\\nloaded 5.20.1'", "it is version 5.20.1"),
        ("printf '\\nloaded \\033[2J\\nx'", "it is version ?[2J"),
        (ROOM, "it cannot be run"),
        ("sleep 1000 & sleep 1000", "it cannot be run"),
    ],
    ids=["fails", "says why", "old", "newer", "forges", "floods", "hangs"],
)
def test_an_undrivable_shell_is_not_used(
    own: str, tmp_path: Path, marks_library: Path, monkeypatch: pytest.MonkeyPatch, script: str, why: str
) -> None:
    """Unless it was asked for by name, ours takes its place, with the reason."""
    monkeypatch.setattr(shell_program, "SECONDS", 0.5 if "1000" in script else 10.0)
    monkeypatch.setattr(shell_program, "bash", lambda: own)
    path = image_bash(tmp_path, monkeypatch, script)
    found = choose(None, ME, marks_library, own)
    assert found.path == own
    assert found.remark.startswith(f"the shell is Holdfast's own, not the image's {path}: {why}")
    with pytest.raises(LookupError, match="cannot use shell bash: "):
        choose("bash", ME, marks_library, own)


def test_bash_env_of_the_image_is_not_run(
    own: str, tmp_path: Path, marks_library: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "env").write_text(f"touch {tmp_path}/ran; exit 7\n")
    monkeypatch.setenv("BASH_ENV", str(tmp_path / "env"))
    monkeypatch.setenv("BASH_FUNC_enable%%", "() { exit 7; }")
    assert choose(None, ME, marks_library, own).path == shutil.which("bash")
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    ("wanted", "why"),
    [
        ("tcsh", "cannot use shell tcsh: there is no such program in the session"),
        ("/nowhere/bash", "cannot use shell /nowhere/bash: there is no such program in the session"),
        (
            "/usr/bin/env",
            "cannot use shell /usr/bin/env: only these can be driven: bash, zsh, fish;",
        ),
    ],
)
def test_invalid_choices_are_refused(own: str, marks_library: Path, wanted: str, why: str) -> None:
    with pytest.raises(LookupError, match=why):
        choose(wanted, ME, marks_library, own)


def test_a_link_has_the_kind_of_its_target(
    own: str, tmp_path: Path, marks_library: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sh").symlink_to("/bin/bash")
    assert choose(str(tmp_path / "sh"), ME, marks_library, own).path == os.path.realpath("/bin/bash")
    named = image_bash(tmp_path, monkeypatch, "exit 1", "bash-static")
    with pytest.raises(LookupError, match="it cannot load"):
        choose(named, ME, marks_library, own)


@pytest.mark.parametrize(
    ("name", "script", "why"),
    [
        ("zsh", "echo no such module; exit 1", "it lacks modules (no such module)"),
        ("zsh", "printf '\\nloaded 4.3.17'", "it is version 4.3.17"),
        ("fish", "echo fish, version 3.1.2", "it is version 3.1.2"),
        ("fish", "echo fish, version 3.7.1", "it is version 3.7.1"),
        ("fish", "exit 1", "it is version "),
    ],
)
def test_other_shells_that_cannot_be_driven(
    own: str,
    tmp_path: Path,
    marks_library: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    script: str,
    why: str,
) -> None:
    image_bash(tmp_path, monkeypatch, script, name)
    with pytest.raises(LookupError, match=re.escape(f"cannot use shell {name}: {why}")):
        choose(name, ME, marks_library, own)
