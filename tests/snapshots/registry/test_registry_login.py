"""Where credentials are found, and in which order."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from holdfast.errors import RegistryError
from holdfast.snapshots.registry.registry_login import RegistryCredentials, find


def _config(folder: Path, **config: Any) -> dict[str, str]:
    (folder / "config.json").write_text(json.dumps(config))
    return {"DOCKER_CONFIG": str(folder)}


def _auth(text: str) -> dict[str, str]:
    return {"auth": base64.b64encode(text.encode()).decode()}


def test_the_environment_comes_first(tmp_path: Path) -> None:
    """It is for every registry, or for the named one."""
    environ = _config(tmp_path, auths={"r.test": _auth("docker:1")})
    environ |= {"HOLDFAST_REGISTRY_USER": "me", "HOLDFAST_REGISTRY_PASSWORD": "secret"}
    assert find("r.test", environ) == RegistryCredentials("me", "secret")
    environ["HOLDFAST_REGISTRY"] = "other.test"
    assert find("r.test", environ) == RegistryCredentials("docker", "1")
    assert find("other.test", environ) == RegistryCredentials("me", "secret")


@pytest.mark.parametrize("key", ["r.test", "https://r.test", "https://r.test/v1/", "r.test/v2/"])
def test_credentials_of_docker_login_are_read(tmp_path: Path, key: str) -> None:
    """A password can have colons; hosts were also written as addresses."""
    environ = _config(tmp_path, auths={"x.test": _auth("no:no"), key: _auth("me:pass:word")})
    assert find("r.test", environ) == RegistryCredentials("me", "pass:word")
    assert find("other.test", environ) is None


def test_docker_hub_has_a_key_of_its_own(tmp_path: Path) -> None:
    """As `docker login` without a host writes it."""
    environ = _config(tmp_path, auths={"https://index.docker.io/v1/": _auth("me:1")})
    assert find("docker.io", environ) == RegistryCredentials("me", "1")


def test_helpers_are_asked(tmp_path: Path) -> None:
    """The registry's helper, else the one for all; a helper without an answer leaves it to the file."""
    asked: list[tuple[str, str]] = []

    def helper(name: str, server: str) -> str | None:
        asked.append((name, server))
        told = {"Username": "<token>" if name == "gcr" else "me", "Secret": f"of {name}"}
        return None if server == "unknown.test" else json.dumps(told)

    environ = _config(
        tmp_path,
        credHelpers={"g.test": "gcr"},
        credsStore="desktop",
        auths={"unknown.test": _auth("a:b"), "r.test": {}},
    )
    assert find("g.test", environ, helper) == RegistryCredentials("", identity_token="of gcr")
    assert find("r.test", environ, helper) == RegistryCredentials("me", "of desktop")
    assert find("unknown.test", environ, helper) == RegistryCredentials("a", "b")
    assert asked == [("gcr", "g.test"), ("desktop", "r.test"), ("desktop", "unknown.test")]


def test_a_helper_is_a_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It gets the host on its input, and fails where it knows none."""
    program = tmp_path / "docker-credential-tests"
    program.write_text(
        '#!/bin/sh\n[ "$1" = get ] && read -r host\n[ "$host" = r.test ] || exit 1\n'
        'echo \'{"ServerURL":"r.test","Username":"me","Secret":"1"}\'\n'
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    environ = _config(tmp_path, credsStore="tests")
    assert find("r.test", environ) == RegistryCredentials("me", "1")
    assert find("other.test", environ) is None
    with pytest.raises(RegistryError, match="cannot ask docker-credential-absent"):
        find("r.test", _config(tmp_path, credsStore="absent"))
    assert find("r.test", _config(tmp_path, credsStore="../evil")) is None


@pytest.mark.parametrize(
    "text", ["{", '{"auths": {"r.test": {"auth": "%%%"}}}', '{"auths": {"r.test": {"auth": "bm9jb2xvbg=="}}}']
)
def test_a_file_that_cannot_be_read_is_reported(tmp_path: Path, text: str) -> None:
    """It is not treated as missing credentials."""
    (tmp_path / "config.json").write_text(text)
    with pytest.raises(RegistryError, match=r"cannot read the credentials in .*config\.json"):
        find("r.test", {"DOCKER_CONFIG": str(tmp_path)})


def test_secrets_are_not_shown() -> None:
    """Not even by mistake."""
    assert "secret" not in repr(RegistryCredentials("me", "secret", "secret"))
