"""The registries that are used without TLS, and the questions of a pull."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from holdfast.errors import RegistryError
from holdfast.runtime.api.controller import Holdfast
from holdfast.runtime.cli.command_line import call
from holdfast.runtime.transfer import push_pull


def test_tls_is_off_only_on_request(monkeypatch: pytest.MonkeyPatch) -> None:
    """By an option, or by name in the environment: host and port as in the reference, and no other."""
    monkeypatch.setenv("HOLDFAST_PLAIN_HTTP", "one.test:5000, two.test")

    def scheme(reference: str, *, plain_http: bool = False) -> str:
        with push_pull.registry_wire(reference, plain_http=plain_http) as wire:
            return wire.base.scheme

    assert scheme("one.test:5000/a:b") == "http"
    assert scheme("two.test/a@sha256:" + "0" * 64) == "http"
    assert scheme("one.test/a:b") == "https"
    assert scheme("three.test/a:b") == "https"
    assert scheme("three.test/a:b", plain_http=True) == "http"


def test_pulling_an_encrypted_snapshot_can_ask_for_a_passphrase(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Like `import`: only with the option, and not if the environment has it."""
    given: list[Any] = []

    def pull(_self: Holdfast, _reference: str, **options: Any) -> None:
        given.append(options["passphrase"])
        raise RegistryError("cannot pull: that is another test")

    monkeypatch.setattr(Holdfast, "pull", pull)
    monkeypatch.setattr("getpass.getpass", lambda _prompt: "typed")
    monkeypatch.setenv("HOLDFAST_HOME", str(tmp_path / "home"))
    for words in ([], ["--passphrase"]):
        assert call(["pull", "one.test/a:b", *words]) == 1
    monkeypatch.setenv("HOLDFAST_BUNDLE_PASSPHRASE", "known")
    assert call(["pull", "one.test/a:b", "--passphrase"]) == 1

    assert given == [None, "typed", "known"]
