"""A session that an older version made, and that still runs, is named as such; nothing of it is touched."""

from __future__ import annotations

import pytest

from holdfast.base.home import Home
from holdfast.errors import SessionUnhealthy
from holdfast.runtime.operations.context import Context
from holdfast.runtime.sessions import health


def test_a_running_session_of_an_older_version_is_not_reached(home: Home) -> None:
    context = Context(home)
    row = context.store.add_session("work", "image", {})
    row = context.store.update_session(row.id, state="running", container_id="c")
    health.check_usable(context, row)
    context.store.keep_details(row.id, of_older="c")
    row = context.store.session(row.id)

    with pytest.raises(SessionUnhealthy, match="an older version of Holdfast made it") as told:
        health.check_usable(context, row)
    assert "can no longer be captured" in told.value.hint
    assert f"`holdfast rm {row.name}`" in told.value.hint
    taken = context.store.add_snapshot(row.id, "live", label="before")
    context.store.update_snapshot(taken.id, state="ready")
    with pytest.raises(SessionUnhealthy) as told:
        health.check_usable(context, row)
    assert f"`holdfast rewind {row.name} before --discard`" in told.value.hint
    assert context.store.session(row.id).state == "running"


def test_a_rewound_session_is_of_this_version(home: Home) -> None:
    """The mark is for one container."""
    context = Context(home)
    row = context.store.add_session("work", "image", {})
    context.store.keep_details(row.id, of_older="c")
    row = context.store.update_session(row.id, state="running", container_id="d")

    health.check_usable(context, row)
