"""The actor comes from an argument or the environment, in whichever run."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.base import actors
from holdfast.errors import InvalidArgument
from holdfast.runtime.api.controller import Holdfast
from holdfast.runtime.journal import host_events, journal_query


@pytest.mark.parametrize(
    ("actor", "run", "expected"),
    [
        (None, "", "agent"),
        ("agent:coder", "", "agent:coder"),
        ("agent:coder", "night", "agent:coder/night"),
        ("agent:coder/day", "night", "agent:coder/day"),
        (None, "night", "agent:/night"),
        ("person:ada", "night", "person:ada"),
        ("system", "night", "system"),
    ],
)
def test_an_agent_acts_in_the_run_that_the_environment_names(
    actor: str | None, run: str, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """People and the system have none, and an agent that names its own keeps it."""
    monkeypatch.delenv(actors.VARIABLE, raising=False)
    monkeypatch.setenv(actors.RUN, run)
    assert actors.checked(actor) == expected


def test_invalid_run_names_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(actors.RUN, "two words")
    with pytest.raises(InvalidArgument, match="cannot act as"):
        actors.checked("agent:coder")


def test_an_agent_is_found_in_all_of_its_runs(tmp_path: Path) -> None:
    """But not an agent whose name begins alike."""
    holdfast = Holdfast(tmp_path / "home")
    session = holdfast.store.add_session("work", "image", {}).id
    for actor in ("agent:coder", "agent:coder/a", "agent:coder/b", "agent:coder2", "agent:coder2/a"):
        host_events.note(holdfast.context, session, "exec", actor=actor)
    found = journal_query.read(holdfast.context, session, journal_query.Filter(actor="agent:coder"))
    assert [entry.actor for entry in found] == ["agent:coder", "agent:coder/a", "agent:coder/b"]
    one = journal_query.read(holdfast.context, session, journal_query.Filter(actor="agent:coder/a"))
    assert [entry.actor for entry in one] == ["agent:coder/a"]
