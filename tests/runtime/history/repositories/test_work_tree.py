"""The files that Git would keep, compared with Git's own answer."""

from __future__ import annotations

import os
import random
import subprocess
from pathlib import Path

import pytest

from holdfast.runtime.history.repositories import git_config, git_ignore, git_index, git_place
from holdfast.runtime.history.repositories.work_tree import WorkTree

NAMES = ("a", "b", "ab", "a.o", "b.log", "x y", "lib", "foo-bar", "[z]", "A", "é", "#h", "!n")
PIECES = (
    *(
        "a",
        "b",
        "*",
        "?",
        "**",
        "[ab]",
        "[!a]",
        ".o",
        ".log",
        "lib",
        "foo",
        "-",
        "x y",
        "\\*",
        "\\[",
        "é",
        "A",
    ),
    *("A", "[[:alpha:]]", "[a-z]", "[]-]", "/", "/", "*.", "\\ ", "\\#", "#"),
)


def git(tree: Path, *words: str) -> str:
    environment = {**os.environ, "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null"}
    done = subprocess.run(["git", *words], cwd=tree, env=environment, capture_output=True, check=True)
    return done.stdout.decode("utf-8", "surrogateescape")


def _pattern(dice: random.Random) -> str:
    body = "".join(dice.choice(PIECES) for _ in range(dice.randint(1, 5)))
    return dice.choice(("", "", "!")) + dice.choice(("", "", "/")) + body + dice.choice(("", "", "/"))


@pytest.mark.parametrize("seed", range(12))
def test_files_are_the_ones_git_lists(tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """With patterns of every form, in several folders, and files that are tracked although ignored."""
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", "/dev/null")
    dice = random.Random(seed)
    git(tmp_path, "init", "-q")
    for _ in range(40):
        path = tmp_path.joinpath(*(dice.choice(NAMES) for _ in range(dice.randint(1, 4))))
        if not any(each.is_file() for each in (path, *path.parents)) and not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()
    made = [path for path in sorted(tmp_path.rglob("*")) if path.is_file() and ".git" not in path.parts]
    for path in dice.sample(made, len(made) // 4):
        git(tmp_path, "--literal-pathspecs", "add", "-f", str(path))
    folders = [
        tmp_path,
        *(path for path in sorted(tmp_path.glob("*")) if path.is_dir() and path.name != ".git"),
    ]
    for folder in (tmp_path, dice.choice(folders)):
        # Git takes three stars for two in some places, which no one writes.
        patterns = [
            text for text in (_pattern(dice) for _ in range(5)) if "***" not in text and "//" not in text
        ]
        (folder / ".gitignore").write_text("\n".join(patterns) + "\n")
    (tmp_path / ".git" / "info").mkdir(exist_ok=True)
    (tmp_path / ".git" / "info" / "exclude").write_text("*.o\n")
    listed = git(tmp_path, "ls-files", "-z", "--cached", "--others", "--exclude-standard")
    place = git_place.find(tmp_path)
    assert place
    assert set(WorkTree.of(place).names()) == set(listed.split("\0")) - {""}


def test_a_pattern_takes_no_longer_than_it_is(tmp_path: Path) -> None:
    """A pattern that makes other matchers try every way ends immediately, whatever the names are."""
    found = git_ignore.read(b"/" + b"**/a/" * 400 + b"b\n" + b"*a" * 1000 + b"b\n")
    assert len(found) == 2
    ignored = git_ignore.Ignored(0, found)
    assert not ignored.ignores(["a"] * 1000, False)
    assert not ignored.ignores(["a" * 250], False)
    for count in (3, 10, 30, 100, 200):  # with as many texts as the name has room for, there are most ways
        (pattern,) = git_ignore.read(b"*a" * count + b"b\n")
        assert not pattern.matches(["a" * 250], False)
        assert pattern.matches(["a" * 250 + "b"], False)
    assert git_ignore.read(b"a" + b" " * 1_000_000 + b"b") == []  # too long, after blanks that end nowhere


@pytest.mark.parametrize(
    "text",
    [
        "[" + " " * 1_000_000,
        '["' + '\\"' * 500_000,
        "[core]\nfilemode = a" + " " * 1_000_000 + "b",
        '[core]\nfilemode = a"' + '\\"' * 500_000,
        "[core" + " " * 1_000_000,
        "[core]\nfilemode" + " " * 1_000_000 + "b",
        "url = " + "https://a:" * 100_000,
        "\\\n" + "\\" * 1_000_000,
    ],
    ids=range(8),
)
def test_a_configuration_takes_no_longer_than_it_is(text: str) -> None:
    """Blanks, strings and escapes without end are read once, not from each place in them again: for hours."""
    assert git_config.harmless(text)
    assert len(git_config.values(text, "core", "filemode")) <= 1


@pytest.mark.parametrize("version", [2, 4])
def test_a_hostile_index_names_nothing_outside(tmp_path: Path, version: int) -> None:
    """Cut and altered anywhere, it gives names beneath the working tree, or nothing."""
    git(tmp_path, "init", "-q")
    for name in ("one", "two/three", "two/four"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    git(tmp_path, "add", ".")
    git(tmp_path, "update-index", "--index-version", str(version))
    data = (tmp_path / ".git" / "index").read_bytes()
    assert [each.path for each in git_index.entries(data, 9) or ()] == ["one", "two/four", "two/three"]
    dice = random.Random(11)
    for _ in range(3000):
        altered = bytearray(data)
        for _ in range(dice.randrange(1, 4)):
            altered[dice.randrange(len(altered))] = dice.choice((0, 46, 47, 255, dice.randrange(256)))
        for entry in git_index.entries(bytes(altered[: dice.randrange(len(data))]), 9) or []:
            assert git_index.is_beneath(entry.path)
    for name in ("/etc", "../x", "a/../../x", ".git/config", "a/.GIT/x", "a//b", "."):
        assert not git_index.is_beneath(name)


@pytest.mark.parametrize("end", ["\x0b", "\x0c", "\x85", "\u2028", "\r"])
def test_a_credential_ends_where_git_ends_a_line(end: str) -> None:
    assert "SECRET" not in git_config.harmless(f"[http]\n\textraheader = a{end}SECRET\n[core]\n")


def test_dashes_in_classes_are_as_git_has_them() -> None:
    """Behind a backslash, and after a range, one is a letter."""
    found = git_ignore.Ignored(0, git_ignore.read(b"[a\\-c]1\n[a-c--e]2\n"))
    ignored = [name for name in ("a1", "b1", "-1", "c1", "b2", "-2", "d2") if found.ignores([name], False)]
    assert ignored == ["a1", "-1", "c1", "b2", "-2", "d2"]


def test_credentials_are_found_in_every_form() -> None:
    text = (
        '[http "https://a]b/"] extraheader = AUTHORIZATION: basic c2VjcmV0\n'
        "[credential]\n\thelper = \\\n store\n\tHELPER\n"
        "[core]\n\tsshCommand = ssh -i key\n\taskPass=x\n\tbare = false\n"
        '[url "https://x:t0ken@host/"]\n\tinsteadOf = a\n'
    )
    kept = git_config.harmless(text)
    assert kept == (
        '[http "https://a]b/"]\n[credential]\n[core]\n\tbare = false\n'
        '[url "https://x@host/"]\n\tinsteadOf = a\n'
    )
    for name in (
        ".git/config",
        "a/.git/config.worktree",
        ".git/modules/a/b/config",
        ".git/worktrees/x/config",
    ):
        assert git_config.is_one(name)
    assert not git_config.is_one("config")


def test_values_are_read_as_git_reads_them(tmp_path: Path) -> None:
    text = (
        '[safe]\n\tdirectory = /a ; one\n directory = "/b # c" # two\n[SAFE] Directory = /d\\\\e\n'
        '[safe "x"]\n\tdirectory = /not\n[core]\n\tworktree = ../../"x y"\n\tflag\n[a.b]\nc=1\n'
    )
    path = tmp_path / "config"
    path.write_text(text)
    for key in ("safe.directory", "core.worktree", "core.flag", "a.b.c"):
        section, _, name = key.rpartition(".")
        expected = git(tmp_path, "config", "-f", str(path), "--get-all", key).splitlines()
        assert git_config.values(text, section, name) == expected, key


def test_names_of_an_index_take_memory_that_it_has(monkeypatch: pytest.MonkeyPatch) -> None:
    """In version 4 a few bytes repeat the name before: of 60 MB they would make a hundred gigabytes."""

    def entry(name: bytes, dropped: int) -> bytes:
        return bytes(62) + bytes([dropped]) + name + b"\0"

    def index(first: int, count: int) -> bytes:
        head = b"DIRC" + (4).to_bytes(4, "big") + (count + 1).to_bytes(4, "big")
        return head + entry(b"a" * first, 0) + entry(b"b", 1) * count + bytes(20)

    found = git_index.entries(index(4000, 9), 10)
    assert found is not None
    assert [len(each.path) for each in found] == [4000] * 10
    assert git_index.entries(index(5000, 9), 10) is None  # no file has such a name
    monkeypatch.setattr(git_index, "MOST_NAMES", 1 << 20)
    assert git_index.entries(index(4000, 200), 1000) is not None
    assert git_index.entries(index(4000, 300), 1000) is None
