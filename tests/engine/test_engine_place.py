"""Where the engine is, by the rules of Docker's own client."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from holdfast.engine import engine_place
from holdfast.engine.engine import Engine
from holdfast.engine.engine_place import LOCAL
from holdfast.errors import EngineUnavailable


@pytest.fixture(autouse=True)
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("DOCKER_HOST", "DOCKER_CONTEXT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    return tmp_path


def made(config: Path, name: str, meta: Any) -> Path:
    """Make a context, and return the folder of its certificates, which is missing."""
    key = hashlib.sha256(name.encode()).hexdigest()
    folder = config / "contexts" / "meta" / key
    folder.mkdir(parents=True)
    (folder / "meta.json").write_text(meta if isinstance(meta, str) else json.dumps(meta))
    return config / "contexts" / "tls" / key / "docker"


def endpoint(**fields: Any) -> dict[str, Any]:
    return {"Name": "x", "Endpoints": {"docker": fields}}


def test_docker_host_comes_before_contexts(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made(config, "mine", endpoint(Host="unix:///mine.sock"))
    (config / "config.json").write_text('{"currentContext": "mine"}')
    assert (engine_place.find().url, engine_place.find().context) == ("unix:///mine.sock", "mine")
    monkeypatch.setenv("DOCKER_CONTEXT", "default")
    assert engine_place.find().url == LOCAL
    monkeypatch.setenv("DOCKER_HOST", "unix:///other.sock")
    monkeypatch.setenv("DOCKER_CONTEXT", "nothing")
    assert (engine_place.find().path, engine_place.find().context) == ("/other.sock", "")


@pytest.mark.parametrize(
    "content", [None, "", "[", "[]", "{}", '{"currentContext": 5}', '{"currentContext": ""}']
)
def test_without_a_choice_it_is_the_local_one(config: Path, content: str | None) -> None:
    if content is not None:
        (config / "config.json").write_text(content)
    assert engine_place.find().url == LOCAL


def test_a_context_has_its_own_certificates(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = made(config, "far", endpoint(Host="tcp://127.0.0.1:1", SkipTLSVerify=True))
    folder.mkdir(parents=True)
    monkeypatch.setenv("DOCKER_CONTEXT", "far")
    place = engine_place.find()

    assert (place.path, place.certificates, place.verified) == ("", folder, False)
    with pytest.raises(EngineUnavailable, match=r"^cannot reach Docker"):
        Engine.connect()


@pytest.mark.parametrize(
    ("meta", "said"),
    [
        (None, "unknown context mine"),
        ("[", "context mine cannot be read"),
        ([], "context mine cannot be read"),
        ({"Endpoints": {}}, "context mine cannot be read"),
        (endpoint(Host=5), "context mine does not have an address"),
        (endpoint(Host="ssh://user@far"), "the engine of context mine from here: it is on another machine"),
        (endpoint(Host="unix:///nothing/here.sock"), r"/nothing/here.sock \(context mine\)"),
    ],
)
def test_a_context_that_leads_nowhere_is_named(
    config: Path, monkeypatch: pytest.MonkeyPatch, meta: Any, said: str
) -> None:
    if meta is not None:
        made(config, "mine", meta)
    monkeypatch.setenv("DOCKER_CONTEXT", "mine")
    with pytest.raises(EngineUnavailable, match=said) as told:
        Engine.connect()
    assert told.value.hint
