"""Which kernels a session has to offer, whatever lies in the folders of specs."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from holdfast.kernels.guest import kernel_specs


def _spec(place: Path, name: str, **fields: Any) -> Path:
    folder = place / name
    folder.mkdir(parents=True)
    (folder / "kernel.json").write_text(json.dumps({"argv": ["run", "{connection_file}"], **fields}))
    return folder


def test_specs_of_the_user_and_of_environments_are_found(tmp_path: Path) -> None:
    """In the order of Jupyter, and where the interpreters on the path are; the first of a name counts."""
    environment = tmp_path / "env"
    (environment / "bin").mkdir(parents=True)
    (environment / "bin" / "python").touch(0o755)
    _spec(environment / "share/jupyter/kernels", "bash", display_name="Bash", language="bash")
    _spec(environment / "share/jupyter/kernels", "ir", display_name="of the environment")
    _spec(tmp_path / "home/.local/share/jupyter/kernels", "IR", display_name="of the user")
    _spec(tmp_path / "named/kernels", "own")
    variables = {"PATH": f"{environment}/bin", "JUPYTER_PATH": f"{tmp_path}/named:relative"}
    places = kernel_specs.folders(variables, str(tmp_path / "home"), str(tmp_path / "none"))
    found = [each for each in kernel_specs.listed(places) if each.folder.is_relative_to(tmp_path)]
    assert [each.name for each in found] == ["bash", "IR", "own"]
    ir = kernel_specs.find("ir", places)
    assert ir is not None
    assert ir.display_name == "of the user"
    assert kernel_specs.find("none", places) is None


def test_unusual_kernel_specs_are_skipped(tmp_path: Path) -> None:
    """A pipe, which would wait; a large file; one that is not JSON, or names no command."""
    for name in ("pipe", "large", "text", "list", "words", "deep", "folder", "bad name"):
        (tmp_path / name).mkdir()
    os.mkfifo(tmp_path / "pipe" / "kernel.json")
    (tmp_path / "large" / "kernel.json").write_text(" " * (kernel_specs.LARGEST + 1))
    (tmp_path / "text" / "kernel.json").write_bytes(b"\xff{")
    (tmp_path / "list" / "kernel.json").write_text("[]")
    (tmp_path / "words" / "kernel.json").write_text('{"argv": [1]}')
    (tmp_path / "deep" / "kernel.json").write_text("[" * 60_000)
    (tmp_path / "folder" / "kernel.json").mkdir()
    (tmp_path / "bad name" / "kernel.json").write_text('{"argv": ["a"]}')
    _spec(tmp_path, "variables", env={"A": 1})
    _spec(tmp_path, "good")
    assert [each.name for each in kernel_specs.listed([tmp_path, tmp_path / "none"])] == ["good"]


def test_many_specs_are_not_all_listed(tmp_path: Path) -> None:
    """A session can make any number of them."""
    for number in range(kernel_specs.MOST + 5):
        _spec(tmp_path, f"spec{number}")
    assert len(kernel_specs.listed([tmp_path])) == kernel_specs.MOST


def test_the_program_of_a_spec_is_that_of_the_session(tmp_path: Path) -> None:
    """`python` is the interpreter next to the spec; other programs are found on the path of the session."""
    (tmp_path / "bin").mkdir()
    for name in ("python3", "tool"):
        (tmp_path / "bin" / name).touch(0o755)
    place = tmp_path / "share/jupyter/kernels"
    environment = {"PATH": str(tmp_path / "bin")}
    for name, argv, program in (
        ("a", ["python3", "-m", "a"], str(tmp_path / "bin/python3")),
        ("b", ["tool", "b"], str(tmp_path / "bin/tool")),
        ("c", ["/usr/bin/other"], "/usr/bin/other"),
        ("d", ["missing"], "missing"),
    ):
        _spec(place, name, argv=argv)
        found = kernel_specs.find(name, [place])
        assert found is not None
        assert kernel_specs.command(found, environment) == [program, *argv[1:]]
