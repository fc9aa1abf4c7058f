"""Which registries are used without TLS."""

from __future__ import annotations

import pytest

from holdfast.runtime.moving import registries


def test_without_tls_only_where_it_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """By an option, or by name in the environment: host and port as in the reference, and no other."""
    monkeypatch.setenv("HOLDFAST_PLAIN_HTTP", "one.test:5000, two.test")

    def scheme(reference: str, *, plain_http: bool = False) -> str:
        with registries.way(reference, plain_http=plain_http) as wire:
            return wire.base.scheme

    assert scheme("one.test:5000/a:b") == "http"
    assert scheme("two.test/a@sha256:" + "0" * 64) == "http"
    assert scheme("one.test/a:b") == "https"
    assert scheme("three.test/a:b") == "https"
    assert scheme("three.test/a:b", plain_http=True) == "http"
