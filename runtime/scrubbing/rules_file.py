"""The scrubbing rules of a home: `scrub.json`, which people write, and the built-in forms.

    {"action": "refuse",                     warn (default), refuse or ignore
     "env": ["DEPLOY_*"],                    variables of this host whose values are secret
     "patterns": [{"name": "...", "regex": "..."}],
     "files": ["~/.netrc", "**/.npmrc"],     files that hold credentials, wherever a session has them
     "allow": ["ghp_0000.*"],                text that is not secret although a rule matches it
     "without": ["json web token"]}          built-in rules to switch off

It never needs to contain a secret value. This module does not know snapshots.
"""

from __future__ import annotations

import re
import stat
from dataclasses import dataclass
from typing import Annotated, Any, Literal, cast

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from holdfast.base.home import Home
from holdfast.base.text import plain
from holdfast.errors import InvalidArgument, StoreError
from holdfast.runtime.scrubbing import known_forms
from holdfast.runtime.scrubbing.rule import PATTERN_LENGTH, Matcher, Rule, checked, compiled

NAME = "scrub.json"
LARGEST = 1 << 20
ACTIONS = ("warn", "refuse", "ignore")
Action = Literal["warn", "refuse", "ignore"]
Word = Annotated[str, Field(min_length=1, max_length=PATTERN_LENGTH)]
Words = Annotated[list[Word], Field(max_length=1000)]
_HOMES = r"/(?:root|workspace|home/[^/]+)/"


class _Pattern(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    name: str
    regex: str


class _File(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    action: Action = "warn"
    env: Words = []
    patterns: Annotated[list[_Pattern], Field(max_length=500)] = []
    files: Words = []
    allow: Words = []
    without: Words = []


@dataclass(frozen=True, slots=True)
class ScrubbingRules:
    """The definition of secrets in a home, and the action on them.

    `env` are patterns of names of variables, `allow` expressions of RE2, `files` patterns of paths.
    """

    rules: tuple[Rule, ...] = known_forms.RULES
    env: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    allow: tuple[str, ...] = ()
    action: Action = "warn"

    def matcher(self) -> Matcher:
        """Return the matcher that finds secrets in text.

        Raises:
            InvalidArgument: the rules cannot be used.
        """
        return Matcher(self.rules, self.allow)


def read(home: Home) -> ScrubbingRules:
    """Return the rules of a home; only the built-in ones without a file.

    Raises:
        StoreError: the file cannot be read, or other users can read or change it.
        InvalidArgument: it is not of that form.
    """
    path = home.root / NAME
    try:
        with path.open("rb") as file:
            found = path.stat()
            data = file.read(LARGEST + 1)
    except FileNotFoundError:
        return ScrubbingRules()
    except OSError as error:
        raise StoreError(f"cannot read {path}: {error.strerror or error}") from error
    if stat.S_IMODE(found.st_mode) & 0o077:
        raise StoreError(f"cannot use {path}: others can read or change it", hint=f"`chmod 600 {path}`")
    try:
        return parse(data)
    except InvalidArgument as error:
        raise InvalidArgument(
            f"cannot use {path}: {error}", hint="docs/scrubbing.md describes its form"
        ) from None


def parse(data: bytes) -> ScrubbingRules:
    """Return the rules in a file's text.

    Raises:
        InvalidArgument: they are not valid.
    """
    if len(data) > LARGEST:
        raise InvalidArgument(f"it has more than {LARGEST >> 20} MiB")
    try:
        file = _File.model_validate_json(data)
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        where = ".".join(map(str, first["loc"]))
        raise InvalidArgument(plain(f"{where}: {first['msg']}" if where else first["msg"], 200)) from None
    known = {rule.name for rule in known_forms.RULES}
    if unknown := [name for name in file.without if name not in known]:
        raise InvalidArgument(f"without: there is no built-in rule '{plain(unknown[0], 60)}'")
    own = tuple(checked(each.name, each.regex) for each in file.patterns)
    for each in file.allow:
        _usable(each.encode().decode("latin-1"), "allow", each)
    for each in file.files:
        _usable(path_pattern(each), "files", each)
    left = tuple(rule for rule in known_forms.RULES if rule.name not in file.without)
    allow = tuple(each.encode().decode("latin-1") for each in file.allow)
    return ScrubbingRules((*own, *left), tuple(file.env), tuple(file.files), allow, file.action)


def action(given: str | None, rules: ScrubbingRules) -> Action:
    """Return the action: the caller's, else the rules'.

    Raises:
        InvalidArgument: there is no such action.
    """
    return rules.action if given is None else checked_action(given)


def checked_action(given: str) -> Action:
    """Return one of ACTIONS.

    Raises:
        InvalidArgument: it is not one of them.
    """
    if given not in ACTIONS:
        raise InvalidArgument(
            f"cannot treat secrets with '{plain(given, 40)}'", hint="--secrets warn, refuse or ignore"
        )
    return cast("Action", given)


def path_pattern(glob: str) -> str:
    """Return an expression for paths like `~/.netrc`, `**/.npmrc`, `/etc/*.key` and, anywhere, `.pgpass`."""
    begin, rest = r"/(?:.*/)?", glob
    if glob.startswith("~/"):
        begin, rest = _HOMES, glob[2:]
    elif glob.startswith("/"):
        begin, rest = "/", glob[1:]
    parts = re.split(r"(\*\*/|\*\*|\*|\?)", rest)
    wild = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    body = "".join(wild.get(part, re.escape(part).replace("\\/", "/")) for part in parts)
    return f"(?s){begin}{body}"


def paths(globs: tuple[str, ...]) -> Any:
    """Return one expression for all of them; None if there are none."""
    joined = "|".join(f"(?:{path_pattern(each)})" for each in globs)
    return compiled(joined.encode()) if globs else None


def _usable(pattern: str, what: str, written: str) -> None:
    try:
        compiled(pattern)
    except (ValueError, UnicodeEncodeError) as error:
        raise InvalidArgument(f"{what}: '{plain(written, 60)}' cannot be used: {error}") from None
