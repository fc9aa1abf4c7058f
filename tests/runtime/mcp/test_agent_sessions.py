"""An agent's default session belongs to its whole folder and the requested options."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from holdfast.base.home import Home
from holdfast.base.ids import check_name
from holdfast.errors import SessionExists
from holdfast.runtime.api.controller import Holdfast
from holdfast.runtime.mcp.agent_sessions import AgentSessions, Default, earlier_name, name_for, record
from holdfast.runtime.sessions.session_options import SessionOptions
from holdfast.runtime.store.row_details import SessionDetails

ALIKE = ["/a/api", "/b/api", "/b/API!", "/b/api.", "/", "/é", "/ö", "/x/" + "a" * 90, "/y/" + "a" * 90]


@pytest.fixture
def hf(tmp_path: Path) -> Holdfast:
    return Holdfast(Home(tmp_path / "home"))


def agents(hf: Holdfast, folder: Path, **options: Any) -> AgentSessions:
    return AgentSessions(hf, Default.of_folder(folder, options))


def made(hf: Holdfast, name: str, details: dict[str, Any] | None = None, **options: Any) -> str:
    """Record a session as one that was made with these options."""
    chosen = SessionOptions.parse(**options).model_dump(mode="json")
    kept = SessionDetails() if details is None else SessionDetails({"agent": details})
    return hf.store.add_session(name, "image", chosen, state="running", details=kept).id


def folder(path: Path) -> Path:
    path.mkdir(parents=True)
    return path


def test_folders_whose_last_parts_are_alike_have_sessions_of_their_own() -> None:
    """The names are valid and have the last part of the path in them."""
    names = [name_for(Path(each)) for each in ALIKE]
    assert len(set(names)) == len(names)
    assert [check_name(each) for each in names] == names
    assert name_for(Path("/home/me/My Project")).startswith("agent-my-project-")
    assert max(map(len, names)) <= 40
    assert len({earlier_name(Path(each)) for each in ALIKE[:4]}) == 1  # which they shared


def test_a_link_to_a_folder_is_that_folder(tmp_path: Path) -> None:
    """The resolved path names the session."""
    real = folder(tmp_path / "real")
    (tmp_path / "link").symlink_to(real)
    assert Default.of_folder(tmp_path / "link", {}) == Default.of_folder(real, {})


def test_the_session_of_the_same_folder_and_options_is_found_again(hf: Holdfast, tmp_path: Path) -> None:
    """Options that are written differently are the same."""
    here = folder(tmp_path / "api")
    asked = {"mounts": [f"{here}:/workspace"], "env": ["A=b"], "memory": "1g"}
    id_ = made(hf, name_for(here), record(here, asked), **asked)
    again = {"mounts": [f"{here}:/workspace:rw"], "env": {"A": "b"}, "memory": 1 << 30}
    for options in (asked, again):
        found = agents(hf, here, **options).known("")
        assert found is not None
        assert found.session.id == id_


@pytest.mark.parametrize(
    ("then", "now", "differing"),
    [
        ({"network": "open"}, {"network": "none"}, "network"),
        ({}, {"network": "none"}, "network"),
        ({"network": "open"}, {}, "network"),
        ({"image": "a"}, {"image": "b"}, "image"),
        ({"mounts": ["/a:/workspace"]}, {"mounts": ["/b:/workspace"]}, "mounts"),
        ({"mounts": ["/a:/workspace"]}, {}, "mounts"),
        ({"mounts": ["/a:/data"]}, {"mounts": ["/a:/data:ro"]}, "mounts"),
        ({}, {"read_only": True}, "read_only"),
        ({"env": ["K=secret-of-a"]}, {"env": ["K=secret-of-b"]}, "env"),
        ({"env": ["K=secret-of-a"]}, {}, "env"),
        ({"memory": "1g"}, {"memory": "2g"}, "memory"),
        ({"template": "ready"}, {}, "template"),
        ({"allow": ["10.0.0.1:80"]}, {"allow": ["10.0.0.2:80"], "network": "open"}, "allow, network"),
    ],
)
def test_a_session_with_other_options_is_refused_by_their_names(
    hf: Holdfast, tmp_path: Path, then: dict[str, Any], now: dict[str, Any], differing: str
) -> None:
    """Their values are not shown: they could contain secrets."""
    here = folder(tmp_path / "api")
    made(hf, name_for(here), record(here, then), **{k: v for k, v in then.items() if k != "template"})
    with pytest.raises(SessionExists) as refused:
        agents(hf, here, **now).of("")
    assert f"({differing})" in str(refused.value)
    assert "secret-of" not in str(refused.value)


def test_a_session_of_another_folder_is_refused(hf: Holdfast, tmp_path: Path) -> None:
    """The message names that folder."""
    here = folder(tmp_path / "api")
    made(hf, name_for(here), record(tmp_path / "other", {}))
    with pytest.raises(SessionExists, match=r"it belongs to .*/other"):
        agents(hf, here).of("")


def test_later_changes_of_a_person_are_left_alone(hf: Holdfast, tmp_path: Path) -> None:
    """The initial options are compared, not the present ones."""
    here = folder(tmp_path / "api")
    id_ = made(hf, name_for(here), record(here, {}))
    changed = SessionOptions.parse(allow=["10.0.0.1:80"]).model_dump(mode="json")
    hf.store.update_session(id_, options=changed)
    assert agents(hf, here).known("") is not None


def test_a_named_session_needs_only_the_requested_options(hf: Holdfast) -> None:
    """Other options of it do not matter."""
    made(hf, "work", image="python:3", network="none")
    assert AgentSessions(hf, Default("work")).known("") is not None
    assert AgentSessions(hf, Default("work", {"network": "none"})).known("") is not None
    with pytest.raises(SessionExists, match=r"\(mounts\)"):
        AgentSessions(hf, Default("work", {"mounts": ["/a:/a"]})).known("")


def test_a_session_of_an_earlier_version_is_found_where_its_folder_is_certain(
    hf: Holdfast, tmp_path: Path
) -> None:
    """By its mount; the folder is recorded then."""
    first, second = folder(tmp_path / "a" / "api"), folder(tmp_path / "b" / "api")
    id_ = made(hf, "agent-api", mounts=[f"{first}:/workspace"])
    assert agents(hf, second).known("") is None
    found = agents(hf, first, mounts=[f"{first}:/workspace"]).known("")
    assert found is not None
    assert found.session.id == id_
    assert (hf.store.session(id_).details.agent or {})["folder"] == str(first)
    assert agents(hf, second).known("") is None


def test_a_session_of_an_uncertain_folder_is_not_used(hf: Holdfast, tmp_path: Path) -> None:
    """A new session is made instead."""
    here = folder(tmp_path / "api")
    made(hf, "agent-api")
    assert agents(hf, here).known("") is None
