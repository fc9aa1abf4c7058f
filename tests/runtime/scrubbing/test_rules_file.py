"""The form of scrub.json, and that nothing is sent under rules that the user did not mean."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.runtime.scrubbing.samples import SECRETS

from holdfast.base.home import Home
from holdfast.errors import HoldfastError, InvalidArgument, StoreError
from holdfast.runtime.scrubbing import rules_file
from holdfast.runtime.scrubbing.rule import Matcher
from holdfast.runtime.scrubbing.rules_file import ScrubbingRules


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "home").create()


def _write(home: Home, text: str, mode: int = 0o600) -> None:
    path = home.root / rules_file.NAME
    path.write_text(text)
    path.chmod(mode)


def test_without_a_file_the_built_in_rules_count(home: Home) -> None:
    """And they warn."""
    assert rules_file.read(home) == ScrubbingRules()
    assert rules_file.read(home).action == "warn"


def test_a_file_adds_and_removes_rules(home: Home) -> None:
    """Its own come first."""
    told = {
        "action": "refuse",
        "env": ["DEPLOY_*"],
        "patterns": [{"name": "staff", "regex": "staff-[0-9]{4}"}],
        "files": ["~/.netrc"],
        "allow": ["ghp_0+"],
        "without": ["json web token"],
    }
    _write(home, json.dumps(told))

    rules = rules_file.read(home)

    names = [rule.name for rule in rules.rules]
    assert names[0] == "staff"
    assert "github token" in names
    assert "json web token" not in names
    assert (rules.action, rules.env, rules.files) == ("refuse", ("DEPLOY_*",), ("~/.netrc",))
    assert list(Matcher(rules.rules, rules.allow).find(SECRETS["json web token"][0].encode())) == []


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "Invalid JSON"),
        ("[]", "valid dictionary|object"),
        ('{"patern": []}', "patern: Extra inputs"),
        ('{"action": "scream"}', "action: "),
        ('{"patterns": [{"name": "a", "regex": "("}]}', "the regex of 'a' cannot be used"),
        ('{"patterns": [{"name": "a", "regex": "x*"}]}', "matches empty text"),
        ('{"patterns": [{"name": "a"}]}', "patterns.0.regex: Field required"),
        ('{"allow": ["("]}', "allow: "),
        ('{"without": ["githup token"]}', "there is no built-in rule 'githup token'"),
        ('{"env": "TOKEN"}', "env: "),
        ('{"env": [1]}', "env.0: "),
        ("{" + " " * (2 << 20) + "}", "more than 1 MiB"),
    ],
)
def test_an_invalid_file_is_refused(home: Home, text: str, why: str) -> None:
    """In one line that names the file and the place; a typing mistake must not export a secret."""
    _write(home, text)

    with pytest.raises(InvalidArgument, match=f"scrub.json: .*({why})") as told:
        rules_file.read(home)

    assert "\n" not in str(told.value)
    assert told.value.hint


def test_an_error_shows_nothing_of_the_file(home: Home) -> None:
    """A value can have been put in the wrong place."""
    _write(home, '{"env": {"TOKEN": "hunter22"}, "action": "hunter22"}')

    with pytest.raises(InvalidArgument) as told:
        rules_file.read(home)

    assert "hunter22" not in str(told.value)


@pytest.mark.parametrize("mode", [0o644, 0o620, 0o604])
def test_a_file_that_others_can_read_or_change_is_refused(home: Home, mode: int) -> None:
    """It defines which texts are secret, and which are let out."""
    _write(home, "{}", mode)

    with pytest.raises(StoreError, match="others can read or change it") as told:
        rules_file.read(home)
    assert "chmod 600" in told.value.hint


def test_an_unreadable_file_does_not_count_as_empty(home: Home) -> None:
    """A folder of that name."""
    (home.root / rules_file.NAME).mkdir()

    with pytest.raises(HoldfastError, match=r"scrub\.json"):
        rules_file.read(home)


@pytest.mark.parametrize(
    ("glob", "path", "fits"),
    [
        ("~/.netrc", "/root/.netrc", True),
        ("~/.netrc", "/home/ada/.netrc", True),
        ("~/.netrc", "/home/ada/x/.netrc", False),
        ("~/.netrc", "/etc/.netrc", False),
        ("**/.npmrc", "/.npmrc", True),
        ("**/.npmrc", "/srv/a/b/.npmrc", True),
        ("**/.npmrc", "/srv/a/b/x.npmrc", False),
        (".git-credentials", "/srv/a/.git-credentials", True),
        ("/etc/*.key", "/etc/a.key", True),
        ("/etc/*.key", "/etc/a/b.key", False),
        ("/etc/**", "/etc/a/b.key", True),
        ("~/.ssh/id_?sa", "/root/.ssh/id_rsa", True),
        ("~/a+(b).txt", "/root/a+(b).txt", True),
        ("*.pem", "/x/Grüße.pem", True),
    ],
)
def test_patterns_of_paths(glob: str, path: str, fits: bool) -> None:
    """Nearly those of .gitignore; ~ is any home in the session."""
    found = rules_file.paths((glob, "/nothing"))

    assert (found.fullmatch(path.encode()) is not None) == fits


def test_the_action_is_one_of_three() -> None:
    """The caller's choice overrides the file."""
    assert rules_file.action(None, ScrubbingRules(action="refuse")) == "refuse"
    assert rules_file.action("ignore", ScrubbingRules(action="refuse")) == "ignore"
    with pytest.raises(InvalidArgument, match="cannot treat secrets with 'shout'"):
        rules_file.action("shout", ScrubbingRules())
