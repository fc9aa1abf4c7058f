"""A receiver's trust in the identity that a session brings."""

from __future__ import annotations

import time
from typing import Any

import pytest

from holdfast.errors import InvalidArgument
from holdfast.runtime.moving import travelling_identity
from holdfast.runtime.moving.travelling_identity import travelling_options
from holdfast.runtime.sessions import preview_grants
from holdfast.runtime.sessions.session_options import SessionOptions
from holdfast.runtime.sessions.tenures import Tenures
from holdfast.runtime.store.row_details import SessionDetails
from holdfast.runtime.store.store import Store

CHAIN = Tenures.begun(1.0, "box").kept()
GOOD: dict[str, Any] = {
    "session": "0" * 12,
    "tenures": CHAIN,
    "labels": {"a": "b"},
    "sandbox": {"metadata": {}},
}


def test_sent_values_are_read_unchanged(tmp_path: Any) -> None:
    store = Store.open(tmp_path / "holdfast.db")
    details = SessionDetails().plus(labels={"team": "a"}, sandbox={"template": "base"})
    row = store.add_session("work", "image", {}, details=details)
    granted = preview_grants.grant(store, row.id, 3000, seconds=60, public=False, now=time.time())
    row = store.session(row.id)
    read = travelling_identity.parse(travelling_identity.of(store, row))
    assert read is not None
    assert (read.session_id, read.labels, read.sandbox) == (row.id, {"team": "a"}, {"template": "base"})
    assert read.tenures.chain
    assert preview_grants.of(SessionDetails().plus(previews=read.previews), 3000) == granted


def test_an_older_source_brings_none() -> None:
    assert travelling_identity.parse(None) is None
    assert travelling_identity.parse(GOOD) is not None


@pytest.mark.parametrize(
    "changed",
    [
        {"session": "../../../etc"},
        {"session": "0" * 13},
        {"session": None},
        {"tenures": []},
        {"tenures": [{"id": "x"}]},
        {"labels": {"not a key": "x"}},
        {"labels": {"a": "two\nlines"}},
        {"labels": {str(n): "x" for n in range(1000)}},
        {"sandbox": "x"},
        {"sandbox": {"metadata": "x" * (1 << 17)}},
    ],
)
def test_invalid_values_are_refused(changed: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument):
        travelling_identity.parse({**GOOD, **changed})


def test_links_that_no_machine_gives_are_left_out() -> None:
    """A source can grant the ports of its own session, for as long as a link lasts at most."""
    key, now = "0f" * 32, time.time()
    good: dict[str, object] = {"key": key, "links_until": now + 1e12, "public_until": "always"}
    bad: dict[str, object] = {
        "80": {"key": key},
        "0": good,
        "99999": good,
        "x": good,
        "81": {**good, "key": "x"},
        "82": None,
    }
    read = travelling_identity.parse({**GOOD, "previews": {"3000": good, **bad}})
    assert read is not None
    assert list(read.previews) == ["3000"]
    grant = preview_grants.of(SessionDetails().plus(previews=read.previews), 3000)
    assert grant is not None
    assert (grant.links_until <= time.time() + preview_grants.LONGEST, grant.public_until) == (True, 0)
    many = {str(port): good for port in range(1, 1000)}
    read = travelling_identity.parse({**GOOD, "previews": many})
    assert read is not None
    assert len(read.previews) == preview_grants.MOST
    wrong: list[object] = [[], "x", 3]
    for given in wrong:
        assert travelling_identity.parse({**GOOD, "previews": given}) is not None


@pytest.mark.parametrize("given", [[], "x", 3, {}])
def test_invalid_identities_are_refused(given: object) -> None:
    with pytest.raises(InvalidArgument, match="not valid"):
        travelling_identity.parse(given)


def test_settings_travel() -> None:
    options = SessionOptions.parse(memory="1g", env=["A=b"], network="none").model_dump(mode="json")
    assert (
        travelling_options("work", options).items()
        >= {"memory": options["memory"], "env": {"A": "b"}}.items()
    )
    SessionOptions.parse(**travelling_options("work", options))
    # A machine with an earlier version does not know options that are not used.
    assert "read_only" not in travelling_options("work", options)
    chosen = SessionOptions.parse(read_only=True, writable=["/srv"]).model_dump(mode="json")
    assert travelling_options("work", chosen).items() >= {"read_only": True, "writable": ["/srv"]}.items()


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"mounts": [{"source": "/srv/data\x1b", "target": "/data"}]}, "/srv/data"),
        ({"secrets": [{"name": "TOKEN", "hosts": ["a.example"]}]}, "TOKEN"),
    ],
)
def test_local_resources_keep_it_here(options: dict[str, Any], named: str) -> None:
    with pytest.raises(InvalidArgument, match=f"cannot move work: .*{named}") as refused:
        travelling_options("work", options)
    assert "\x1b" not in str(refused.value)
