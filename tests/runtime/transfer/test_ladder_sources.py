"""The source of a ladder, by a caller's reference: without an engine or a network."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.errors import ReferenceNotFound
from holdfast.runtime.transfer import ladder_sources
from holdfast.snapshots.registry import registry_endpoint
from holdfast.snapshots.registry.http_client import HttpClient

REFERENCE = "registry.test:5000/team/work:red"


@pytest.mark.parametrize(
    ("listed", "asked", "scheme"),
    [("", False, "https"), ("", True, "http"), ("other.test, registry.test:5000", False, "http")],
)
def test_a_registry_is_reached_as_for_a_pull(
    listed: str, asked: bool, scheme: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """HOLDFAST_PLAIN_HTTP counts as well as the option."""
    context: Any = None
    reached: list[str] = []

    def origin(wire: HttpClient) -> None:
        reached.append(str(wire.url("manifests/red")))
        raise ReferenceNotFound("cannot pull: it ends here")

    monkeypatch.setenv("HOLDFAST_PLAIN_HTTP", listed)
    monkeypatch.setattr(registry_endpoint, "RegistryOrigin", origin)

    with pytest.raises(ReferenceNotFound):
        ladder_sources.ladder(context, REFERENCE, plain_http=asked)

    assert reached == [f"{scheme}://registry.test:5000/v2/team/work/manifests/red"]
