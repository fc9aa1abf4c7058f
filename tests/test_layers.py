"""Imports point down: every module can import its own room and the rooms below it.

All imports count: those for type checking, and those within functions.
"""

from __future__ import annotations

import ast
import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

import holdfast

PACKAGE = Path(holdfast.__file__).parent

ROOMS = (
    # From the ground up. What runs in a session is one room, although it is in two folders.
    "value_classes",
    "errors",
    "procfs",
    "guest",
    "base",
    "store",
    "checkpointer",
    "gateway",
    "engine",
    "images",
    "snapshots",
    "cluster",
    "operations",
    "scrubbing",
    "journal",
    "task",
    "terminal",
    "guest_rpc",
    "attachment",
    "remote",
    "storage",
    "sessions",
    "files",
    "egress",
    "lifecycle",
    "history",
    "artifacts",
    "pulse",
    "retention",
    "verification",
    "capture",
    "restore",
    "lifetimes",
    "transfer",
    "moving",
    "api",
    "flaky",
    "doctor",
    "ci",
    "pytest_plugin",
    "access",
    "notices",
    "http_doors",
    "mcp",
    "serve",
    "client",
    "adapters",
    "e2b",
    "swerex",
    "jupyter",
    "page",
    "sign_in",
    "node",
    "holdfast",
    "cli",
)
UPWARD = {
    # The controller offers what is built on it, and imports it when it is called.
    ("api.controller", "doctor.doctor"),
    ("api.controller", "ci.run_job"),
    ("api.controller", "flaky.repeat"),
    ("api.snapshot_trials", "flaky.repeat"),
    ("api.snapshot_trials", "flaky.spread"),
    # The same class for a home and for the URL of a server.
    ("api.controller", "client.blocking.remote_holdfast"),
    # A link is an access key, which a home has for the users of its servers.
    ("api.session_sharing", "access.access_keys"),
    ("api.session_sharing", "access.shared_links"),
    # A lost connection means something else when the session is dead.
    ("guest_rpc.session_channel", "sessions.health"),
    # A home whose keys are in PostgreSQL loads the driver for that, and no other home does.
    ("store.beside_database", "cluster.shared_teams"),
}
HANDED_OUT = 10
"""Modules of handles, which know each other."""
ALONE = ("procfs", "checkpointer", "gateway", "guest")
"""They run in containers, and bring nothing else of this package along but the first, and value classes."""

CHECKPOINTER_ROOMS = (
    # From the ground up. The server, which starts one of the last two or a smaller operation, is above all.
    "ground",
    "egress",
    "wire",
    "record",
    "criu",
    "container",
    "layers",
    "survey",
    "carried",
    "dump",
    "restore",
    "checkpointer_server",
)


def _modules() -> Iterator[tuple[str, Path]]:
    # The parts are links; Path.rglob does not follow those.
    for folder, _, files in os.walk(PACKAGE, followlinks=True):
        for path in (Path(folder) / file for file in sorted(files) if file.endswith(".py")):
            parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
            yield ".".join(parts[:-1] if parts[-1] == "__init__" else parts), path


MODULES = dict(_modules())


def _imports(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
            yield from (name if name in MODULES else node.module for name in names)


GRAPH = {
    module: {name for name in _imports(path) if name in MODULES} - {module}
    for module, path in MODULES.items()
}


def room(module: str) -> str:
    parts = [*module.split("."), "", ""]
    if parts[1:3] == ["snapshots", "checkpointer"]:
        return "checkpointer"
    if parts[1:3] in (["runtime", "guest"], ["kernels", "guest"]):
        return "guest"
    if parts[1:3] == ["base", "value_classes"]:  # what runs in containers has a copy of it
        return "value_classes"
    found = (parts[2] if parts[1] == "runtime" else parts[1]) or "holdfast"
    return {"kernels": "guest", "__main__": "cli"}.get(found, found)


def short(module: str) -> str:
    return module.removeprefix("holdfast.").removeprefix("runtime.")


def test_every_part_is_looked_at() -> None:
    """A checkout without the links would leave nothing to check."""
    parts = (
        "runtime.api.controller",
        "kernels.guest.kernel",
        "images.build",
        "snapshots.checkpointer.wire.requests",
    )
    for part in parts:
        assert f"holdfast.{part}" in MODULES


def test_imports_point_down() -> None:
    upward = {
        (short(module), short(name))
        for module, names in GRAPH.items()
        for name in names
        if ROOMS.index(room(name)) > ROOMS.index(room(module))
    }
    assert upward == UPWARD


@pytest.mark.parametrize("module", [name for name in MODULES if room(name) in ALONE])
def test_guest_code_stands_alone(module: str) -> None:
    for name in GRAPH[module]:
        assert room(name) in (room(module), "procfs", "value_classes") or name in (
            "holdfast.runtime",
            "holdfast.kernels",
        )


def test_rooms_of_the_checkpointer_import_each_other_in_one_direction() -> None:
    """Only its server is outside of a room; a package is imported for its content."""
    prefix = "holdfast.snapshots.checkpointer."
    place = {
        module: CHECKPOINTER_ROOMS.index(module.removeprefix(prefix).partition(".")[0])
        for module in MODULES
        if module.startswith(prefix)
    }
    upward = [
        (short(module), short(name))
        for module, found in place.items()
        for name in GRAPH[module] & place.keys()
        if place[name] > found
    ]
    assert upward == []
    assert max(place.values()) == len(CHECKPOINTER_ROOMS) - 1


def test_only_handles_import_each_other_in_circles() -> None:
    """Sessions have snapshots, and snapshots make sessions; over a URL as in process.

    And `Holdfast` makes the controller of a URL, whose methods it describes.
    """
    handles, *remote = sorted(circles(), key=len, reverse=True)
    assert len(handles) <= HANDED_OUT
    assert {room(module) for module in handles} == {"api", "flaky"}
    pairs = [{"api.controller", "client.blocking.remote_holdfast"}]
    pairs += [{f"client.aio.async_{name}" for name in ("session", "snapshot", "task")}]
    pairs += [{f"client.blocking.remote_{name}" for name in ("session", "snapshot", "task")}]
    assert sorted([set(map(short, each)) for each in remote], key=min) == pairs


def test_module_names_are_unique() -> None:
    files = [path.stem for path in MODULES.values()]
    assert {name for name, count in Counter(files).items() if count > 1} == {"__init__"}


def test_class_names_are_unique() -> None:
    """Except for names that programs in sessions import, and reports of a session in the same words."""
    trees = [ast.parse(path.read_text()) for path in MODULES.values()]
    names = Counter(node.name for tree in trees for node in ast.walk(tree) if isinstance(node, ast.ClassDef))
    assert {name for name, count in names.items() if count > 1} == {"CaptureFailed", "Event", "Origin"}


def test_runtime_has_folders_only() -> None:
    assert [path.name for path in (PACKAGE / "runtime").glob("*.py")] == ["__init__.py"]


def test_only_the_engine_room_uses_the_sdk() -> None:
    """Neither the package, nor the client that the engine holds."""
    others = {module: path for module, path in MODULES.items() if room(module) != "engine"}
    assert [module for module, path in others.items() if "docker" in _packages(path)] == []
    assert [module for module, path in others.items() if "engine.client" in path.read_text()] == []


def _packages(path: Path) -> set[str]:
    return {name.partition(".")[0] for name in _imports(path)}


def circles() -> list[list[str]]:
    """Sets of modules that reach each other by imports (Tarjan's algorithm)."""
    found: list[list[str]] = []
    order: dict[str, int] = {}
    lowest: dict[str, int] = {}
    stack: list[str] = []

    def visit(module: str) -> None:
        order[module] = lowest[module] = len(order)
        stack.append(module)
        for name in GRAPH[module]:
            if name not in order:
                visit(name)
                lowest[module] = min(lowest[module], lowest[name])
            elif name in stack:
                lowest[module] = min(lowest[module], order[name])
        if lowest[module] == order[module]:
            circle = stack[stack.index(module) :]
            del stack[stack.index(module) :]
            if len(circle) > 1:
                found.append(circle)

    for module in MODULES:
        if module not in order:
            visit(module)
    return found
