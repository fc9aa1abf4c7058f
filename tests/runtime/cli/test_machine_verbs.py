"""The image of a new session, as a command line chooses it, and contradictory options."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from holdfast.errors import InvalidArgument
from holdfast.runtime.cli import machine_verbs

NOTHING: dict[str, Any] = {
    **dict.fromkeys(("image", "folder", "file", "target", "policy", "devcontainer")),
    "arguments": (),
    "entrypoint": False,
}


def choose(**given: Any) -> tuple[str | None, list[Any]]:
    """Return the image, and the request to the controller for it."""
    asked: list[Any] = []

    def build(folder: str, **options: Any) -> str:
        asked.append(("build", folder, options))
        return "built"

    def load(path: str) -> str:
        asked.append(("load", path))
        return "loaded"

    def pull(name: str, policy: str) -> str:
        asked.append(("pull", name, policy))
        return name

    holdfast: Any = SimpleNamespace(images=SimpleNamespace(build=build, load=load, pull=pull))
    return machine_verbs.choose(holdfast, **(NOTHING | given)), asked


def test_a_name_is_left_to_the_session() -> None:
    """Nothing is asked before; so it is over a URL."""
    assert choose() == (None, [])
    assert choose(image="debian:13") == ("debian:13", [])
    assert choose(image="debian:13", entrypoint=True, devcontainer=None) == ("debian:13", [])


def test_folders_are_built_files_loaded_and_names_pulled() -> None:
    options: dict[str, object] = {"file": "F", "arguments": {"A": "b=c", "D": ""}, "target": "t"}
    options |= {"network": None, "allow": (), "deny": (), "remote_sources": False}
    assert choose(folder=".", file="F", arguments=["A=b=c", "D="], target="t") == (
        "built",
        [("build", ".", options)],
    )
    assert choose(image="./a.tar") == ("loaded", [("load", "./a.tar")])
    assert choose(image="debian", policy="always") == ("debian", [("pull", "debian", "always")])


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"file": "F"}, "nothing is"),
        ({"target": "t"}, "nothing is"),
        ({"arguments": ["A=b"]}, "nothing is"),
        ({"folder": ".", "arguments": ["A"]}, "'A': it is not KEY=VALUE"),
        ({"folder": ".", "image": "a"}, "two images"),
        ({"folder": ".", "devcontainer": "."}, "two images"),
        ({"image": "a", "devcontainer": "."}, "two images"),
        ({"policy": "never"}, "no image was named"),
        ({"policy": "never", "image": "./a.tar"}, "no image was named"),
    ],
)
def test_conflicting_options_are_refused(given: dict[str, Any], why: str) -> None:
    with pytest.raises(InvalidArgument, match=why):
        choose(**given)


@pytest.mark.parametrize(
    "given",
    [
        {"folder": "."},
        {"image": "./a.tar"},
        {"image": "a", "policy": "never"},
        {"devcontainer": "."},
        {"entrypoint": True},
    ],
)
def test_files_of_the_caller_are_not_sent_over_a_url(
    monkeypatch: pytest.MonkeyPatch, given: dict[str, Any]
) -> None:
    monkeypatch.setenv("HOLDFAST_URL", "http://127.0.0.1:1")
    with pytest.raises(InvalidArgument, match="over a URL") as refused:
        choose(**given)
    assert refused.value.hint
