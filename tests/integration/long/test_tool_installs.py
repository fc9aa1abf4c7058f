"""Holdfast as pipx and uv install it, from its wheel, for an ordinary user without further packages."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.machines import installed, wheel

from holdfast.base.home import Home

WAYS = {
    "pipx": ["pipx install --quiet {wheel}"],
    "uv tool": ["uv tool install --quiet --python {python} {wheel}"],
    "uv venv": [
        "uv venv --quiet --python {python} {home}/own",
        "uv pip install --quiet --python {home}/own/bin/python {wheel}",
    ],
}
"""How each is told to install; the programs of the first two appear in ~/.local/bin."""
ENVIRONMENTS = {
    "pipx": "~/.local/*/pipx/venvs/holdfast/bin",
    "uv tool": "~/.local/share/uv/tools/holdfast/bin",
    "uv venv": "~/own/bin",
}


@pytest.fixture
def place(remains: Callable[[Home], list[str]]) -> Iterator[installed.Place]:
    with installed.Place() as made:
        yield made
        left = remains(Home(made.state))
    assert left == []


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of the checkout."""
    folder = tmp_path_factory.mktemp("wheel")
    wheel.copy_source(folder / "source")
    return wheel.build(folder / "source", folder)


@pytest.mark.parametrize("way", WAYS)
def test_sessions_work_as_a_tool_installs_them(way: str, built: Path, place: installed.Place) -> None:
    """Version, doctor, a session, a snapshot, a copy and a bundle of it; by the program the user calls."""
    tools = place.make_environment("tools", "pipx", "uv")
    handed = place.folder / built.name
    handed.write_bytes(built.read_bytes())
    for command in WAYS[way]:
        words = command.format(wheel=handed, home=place.home, python=place.interpreter)
        place.use(tools, *words.split())
    (environment,) = place.home.glob(ENVIRONMENTS[way].removeprefix("~/"))
    programs = environment if way == "uv venv" else place.home / ".local/bin"

    try:
        assert place.use(programs, "holdfast", "--version").startswith("0.")
        # The user's mounts are not the engine's here, which doctor reports with exit code 1.
        said = place.use(Path("/bin"), "sh", "-c", f"{programs}/holdfast doctor --json || true")
        assert [line["name"] for line in json.loads(said) if not line["ok"]] in ([], ["shared folder"])
        place.holdfast(programs, "new", "--name", "work")
        place.use(programs, "holdfast", "exec", "work", "kept=here; sleep 1000 &")
        place.holdfast(programs, "snapshot", "work", "--label", "midway")
        place.holdfast(programs, "restore", "midway", "--name", "copy")
        said = place.use(programs, "holdfast", "exec", "copy", "echo $kept; jobs -r")
        assert said.splitlines()[0] == "here"
        assert "sleep 1000" in said
        place.holdfast(programs, "export", "midway", "bundle")
        place.holdfast(programs, "rmi", "midway")
        place.holdfast(programs, "import", "bundle", "--label", "back")
    finally:
        place.clear(environment)
