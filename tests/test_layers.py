"""Imports point down: surfaces, controller, snapshots and guest client, engine and store, errors."""

from __future__ import annotations

import ast
import os
from pathlib import Path
from typing import Any

import pytest

import holdfast

PACKAGE = Path(holdfast.__file__).parent


def _modules() -> Any:
    # The parts are links; Path.rglob does not follow those.
    for folder, _, files in os.walk(PACKAGE, followlinks=True):
        for path in (Path(folder) / file for file in sorted(files) if file.endswith(".py")):
            parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
            yield ".".join(parts[:-1] if parts[-1] == "__init__" else parts), path


def test_every_part_is_looked_at() -> None:
    """A checkout without the links would leave nothing to check."""
    for part in ("runtime.controller", "kernels.guest.kernel", "images.build", "snapshots.checkpointer.dump"):
        assert f"holdfast.{part}" in MODULES


def _imports(path: Any) -> Any:
    """Names imported when the module is, leaving out what only a type checker reads."""
    tree = ast.parse(path.read_text())
    skipped = {
        id(node)
        for test in ast.walk(tree)
        if isinstance(test, ast.If) and "TYPE_CHECKING" in ast.dump(test.test)
        for node in ast.walk(test)
    }
    for node in ast.walk(tree):
        if id(node) in skipped:
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


MODULES = dict(_modules())
LOWER = (
    "holdfast.images",
    "holdfast.snapshots",
    "holdfast.kernels",
    "holdfast.runtime.engine",
    "holdfast.runtime.home",
    "holdfast.runtime.guest_client",
    "holdfast.runtime.store",
)


@pytest.mark.parametrize("module", [name for name in MODULES if ".checkpointer" in name])
def test_the_checkpointer_imports_nothing_of_the_host(module: Any) -> None:
    """What runs with privileges stands alone."""
    for name in _imports(MODULES[module]):
        assert not name.startswith("holdfast") or name.startswith("holdfast.snapshots.checkpointer")


@pytest.mark.parametrize("module", [name for name in MODULES if ".guest." in f"{name}."])
def test_the_guest_imports_nothing_of_the_host(module: Any) -> None:
    """Code that runs inside a session needs nothing that is not there."""
    for name in _imports(MODULES[module]):
        assert (
            not name.startswith("holdfast")
            or ".guest." in f"{name}."
            or name in ("holdfast.runtime", "holdfast.kernels")
        )


@pytest.mark.parametrize("module", [name for name in MODULES if name.startswith("holdfast.runtime.gateway")])
def test_the_gateway_imports_nothing_of_the_host(module: Any) -> None:
    """Its container has this package and mitmproxy."""
    for name in _imports(MODULES[module]):
        assert not name.startswith("holdfast") or name.startswith("holdfast.runtime.gateway")


@pytest.mark.parametrize(
    "module",
    [name for name in MODULES if name.startswith(LOWER)],
)
def test_the_lower_rings_know_nothing_of_the_controller(module: Any) -> None:
    """Nobody below imports the controller, its handles or the command line."""
    above = (
        "holdfast.runtime.cli",
        "holdfast.runtime.controller",
        "holdfast.runtime.session.",
        "holdfast.runtime.snapshot.",
    )
    for name in _imports(MODULES[module]):
        assert not f"{name}.".startswith(above)


@pytest.mark.parametrize("module", [name for name in MODULES if not name.startswith("holdfast.runtime.cli")])
def test_nobody_imports_the_command_line(module: Any) -> None:
    """The command line is a surface: what it does, a program can do without it."""
    if module != "holdfast.__main__":
        assert not any(name.startswith("holdfast.runtime.cli") for name in _imports(MODULES[module]))
