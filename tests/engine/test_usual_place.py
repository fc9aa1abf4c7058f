"""Whether the engine is where it usually is."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.engine import usual_place
from holdfast.engine.engine_place import EnginePlace


@pytest.fixture(autouse=True)
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("DOCKER_HOST", "DOCKER_CONTEXT", usual_place.CHOICE):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    return tmp_path / "config.json"


def test_without_any_setting() -> None:
    assert usual_place.is_used()


@pytest.mark.parametrize(
    ("variable", "value", "used"),
    [
        ("DOCKER_HOST", "unix:///run/docker.sock", True),
        ("DOCKER_HOST", "ssh://host", False),
        ("DOCKER_HOST", "tcp://127.0.0.1:2376", False),
        ("DOCKER_CONTEXT", "mine", False),
        (usual_place.CHOICE, "yes", False),
        (usual_place.CHOICE, "no", True),
        (usual_place.CHOICE, "perhaps", True),
    ],
)
def test_variables(variable: str, value: str, used: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(variable, value)
    assert usual_place.is_used() is used


def test_a_context_in_use(config: Path) -> None:
    config.write_text('{"auths": {}}')
    assert usual_place.is_used()
    config.write_text('{"auths": {}, "currentContext": "mine"}')
    assert not usual_place.is_used()


def test_no_home_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DOCKER_CONFIG")
    monkeypatch.setenv("HOME", "/elsewhere")
    assert usual_place.folder() == "/elsewhere/.docker"


@pytest.mark.parametrize(
    ("url", "elsewhere"),
    [
        ("unix:///var/run/docker.sock", False),
        ("ssh://host", True),
        ("SSH://user@host:22", True),
        ("tcp://127.0.0.1:2376", False),
        ("tcp://[::1]:2376", False),
        ("tcp://localhost:2376", False),
        ("tcp://192.0.2.1:2376", True),
        ("tcp://host.invalid:2376", True),
        ("tcp://[half", False),
    ],
)
def test_which_addresses_are_another_machines(url: str, elsewhere: bool) -> None:
    """192.0.2.0/24 is for documentation (RFC 5737), and `invalid` no domain (RFC 2606)."""
    assert EnginePlace(url).elsewhere is elsewhere


def test_the_choice_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(usual_place.CHOICE, "yes")
    assert EnginePlace("tcp://127.0.0.1:2376").elsewhere
    monkeypatch.setenv(usual_place.CHOICE, "no")
    assert not EnginePlace("ssh://host").elsewhere
