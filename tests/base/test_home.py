"""The state directory: closed to others, whatever it was and whatever the umask."""

from __future__ import annotations

import os
import pwd
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast.base.home import Home
from holdfast.errors import StoreError


@pytest.fixture(params=[0o000, 0o022, 0o077], ids=oct)
def umask(request: pytest.FixtureRequest) -> Iterator[int]:
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


def modes(root: Path) -> set[int]:
    """The permissions of everything below a folder for its group and others."""
    return {path.stat().st_mode & 0o077 for path in root.rglob("*")}


def test_every_folder_is_closed_whatever_the_umask(tmp_path: Path, umask: int) -> None:
    """Also missing parents of the home: a user who can write to one can replace its content."""
    Home(tmp_path / "state" / "of" / "holdfast").create()

    assert (umask, modes(tmp_path)) == (umask, {0})


@pytest.mark.parametrize("mode", [0o777, 0o770, 0o702, 0o1777])
def test_a_home_that_others_can_write_to_is_refused(tmp_path: Path, mode: int) -> None:
    """They could put another folder in the place of one of its own. Its content stays as it is."""
    root = Home(tmp_path / "home").create().root
    root.chmod(mode)

    with pytest.raises(StoreError, match=f"other users can write to it .mode {mode:04o}") as refused:
        Home(root).create()
    assert refused.value.hint.endswith(f"`chmod 700 {root}`")
    root.chmod(0o700)
    assert Home(root).create().root == root


@pytest.mark.parametrize("mode", [0o755, 0o750, 0o701])
def test_a_home_that_others_can_read_is_closed(tmp_path: Path, mode: int) -> None:
    """Nothing in it is for anybody else."""
    root = tmp_path / "home"
    root.mkdir()
    root.chmod(mode)

    Home(root).create()

    assert root.stat().st_mode & 0o777 == 0o700


def test_a_folder_of_other_things_is_not_closed(tmp_path: Path) -> None:
    """Others can be meant to read it; a home in it would be open, so it is refused."""
    (tmp_path / "page.html").touch()
    tmp_path.chmod(0o755)

    with pytest.raises(StoreError, match="it holds unrelated files"):
        Home(tmp_path).create()
    assert tmp_path.stat().st_mode & 0o777 == 0o755
    assert [path.name for path in tmp_path.iterdir()] == ["page.html"]


@pytest.mark.parametrize(
    ("variables", "place"),
    [
        ({"HOLDFAST_HOME": "/a b/c", "HOME": "/h", "XDG_STATE_HOME": "/x"}, "/a b/c"),
        ({"HOLDFAST_HOME": "", "HOME": "/h", "XDG_STATE_HOME": "/x"}, "/x/holdfast"),
        ({"HOME": "/h", "XDG_STATE_HOME": "relative"}, "/h/.local/state/holdfast"),
        ({"HOME": "/h"}, "/h/.local/state/holdfast"),
        ({"HOME": ""}, f"{pwd.getpwuid(os.getuid()).pw_dir}/.local/state/holdfast"),
        ({}, f"{pwd.getpwuid(os.getuid()).pw_dir}/.local/state/holdfast"),
    ],
)
def test_the_home_is_found_however_little_is_set(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], place: str
) -> None:
    """A service or cron can start without HOME: the account names the folder."""
    for name in ("HOLDFAST_HOME", "HOME", "XDG_STATE_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)

    assert str(Home.default().root) == place


def test_a_user_without_account_and_home_gets_a_hint(monkeypatch: pytest.MonkeyPatch) -> None:
    def nobody(_: int) -> Any:
        raise KeyError

    for name in ("HOLDFAST_HOME", "HOME", "XDG_STATE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(pwd, "getpwuid", nobody)
    with pytest.raises(StoreError, match="HOME is not set") as told:
        Home.default()
    assert "HOLDFAST_HOME" in told.value.hint


def test_a_relative_home_below_a_removed_folder_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    with pytest.raises(StoreError, match="the current directory was removed"):
        Home.at("home")


@pytest.mark.parametrize("name", ["a\nb", "a\x1b[31m", "a\udcff"])
def test_names_that_cannot_be_written_are_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(StoreError, match="not plain text") as told:
        Home.at(tmp_path / name)
    assert str(told.value).isprintable()
    assert Home.at(tmp_path / "ordinär 日本 $x").root.name == "ordinär 日本 $x"


@pytest.mark.parametrize(
    "given", ["/a/b", "/a//b", "/a/./b", "/a/b/", "//a", "a/../b", "~/x", ".", "/a/../b", "/a/.b"]
)
def test_a_home_is_where_pathlib_says(given: str) -> None:
    """Most paths are plain and taken as they are; the others are made absolute, links and `..` kept."""
    home = Home.at(given)
    assert home.root == Path(given).expanduser().absolute()
    assert home.place == str(home.root)
    assert home.below("run", "x") == f"{home.place}/run/x"
    assert home == Home(home.root)
    assert len({home, Home(home.place)}) == 1
    assert home.shared_folder("ab") == str(home.run_dir("ab"))
