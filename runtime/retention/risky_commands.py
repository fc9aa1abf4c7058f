"""Detection of risky commands: commands that destroy data, or change installed software.  Pure.

A command is examined as text, word by word. That finds what is written out: in a pipe, after `sudo`, in a
loop, in the quotes of `bash -c`; not what a script or an alias does. A false alarm costs only a snapshot,
so text that is merely printed (`echo rm -r x`) can raise one. The time is linear in the length of the text.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator, Sequence

MOST = 1 << 16
"""The most characters of a command that are examined."""
LEADERS = frozenset(
    re.findall(
        r"\S+",
        """
        sudo doas env time nice nohup exec command xargs then do else if while until timeout setsid stdbuf
        ionice chroot watch builtin python python3
        """,
    )
)
BEHIND = 6
"""The most words after a leader that can still be its own options."""

Words = Sequence[str]
Rule = Callable[[Words], bool]


def _short(args: Words, letters: str, *long: str) -> bool:
    """Check for an option with one of these letters, alone or combined, or for one of these words."""
    return any(
        (word[:1] == "-" and word[:2] != "--" and any(letter in word for letter in letters))
        or word.split("=")[0] in long
        for word in args
    )


def _verb(*verbs: str) -> Rule:
    """Check whether the first word that is not an option is one of these."""
    return lambda args: next((word for word in args if word[:1] not in ("-", "+")), "") in verbs


def _any(*wanted: str) -> Rule:
    return lambda args: any(word in wanted for word in args)


_GIT = frozenset(
    re.findall(
        r"\S+",
        """
        reset clean rebase filter-branch filter-repo checkout restore stash branch push commit
        log show diff grep
        """,
    )
)


def _git(args: Words) -> bool:
    at = next((number for number, word in enumerate(args) if word in _GIT), None)
    if at is None:
        return False
    verb, options = args[at], args[at + 1 :]
    return (
        (verb == "reset" and _any("--hard", "--merge", "--keep")(options))
        or (verb == "clean" and _short(options, "f", "--force"))
        or verb in ("rebase", "filter-branch", "filter-repo")
        or (verb == "checkout" and (_short(options, "f", "--force") or _any("--", ".")(options)))
        or (verb == "restore" and "--staged" not in options)
        or (verb == "stash" and _verb("drop", "clear")(options))
        or (verb == "branch" and _short(options, "D"))
        or (verb == "push" and _short(options, "f", "--force", "--force-with-lease", "--delete"))
    )


def _find(args: Words) -> bool:
    runs = [args[at + 1] for at, word in enumerate(args[:-1]) if word in ("-exec", "-execdir", "-ok")]
    return "-delete" in args or any(_name(word) in ("rm", "shred") for word in runs)


def _always(_args: Words) -> bool:
    return True


_PIP = _verb("install", "uninstall", "download", "sync")
_NODE = _verb(
    *("i", "ci", "install", "add", "remove", "rm", "un", "uninstall", "up", "update", "upgrade", "dedupe"),
    *("prune", "link"),
)
_SYSTEM = _verb(
    *("install", "reinstall", "add", "remove", "del", "purge", "autoremove", "upgrade", "full-upgrade"),
    *("dist-upgrade", "dup", "erase"),
)
RULES: tuple[tuple[tuple[str, ...], Rule], ...] = (
    (("rm",), lambda args: _short(args, "rR", "--recursive")),
    (("find",), _find),
    (("shred", "mkswap", "wipefs", "fdisk", "sfdisk", "parted", "truncate", "dropdb"), _always),
    (("git",), _git),
    (("pip", "pip3", "pipx", "uv", "poetry", "pdm", "conda", "mamba"), lambda args: _pip(args)),
    (
        ("python", "python3"),
        lambda args: "-m" in args and "pip" in args and _pip(args[args.index("pip") + 1 :]),
    ),
    (("npm", "pnpm", "bun"), _NODE),
    (("yarn",), lambda args: not args or _NODE(args)),
    (("apt", "apt-get", "aptitude", "dnf", "yum", "apk", "zypper"), _SYSTEM),
    (("pacman",), lambda args: _short(args, "SRU")),
    (("dpkg", "rpm"), lambda args: _short(args, "irPeU", "--install", "--remove", "--purge")),
    (("cargo", "gem", "go"), _verb("install", "uninstall", "update")),
    (("dd",), lambda args: any(word.startswith("of=") for word in args)),
    (("chmod", "chown", "chgrp"), lambda args: _short(args, "R", "--recursive")),
    (("rsync",), lambda args: any(word.startswith("--delete") for word in args)),
    (("redis-cli",), _any("flushall", "flushdb", "FLUSHALL", "FLUSHDB")),
    (("alembic",), _verb("upgrade", "downgrade")),
    (("manage.py", "django-admin"), _any("migrate", "flush")),
)
# Statements of other languages, anywhere in the text: they occur in quotes, or in cells.
ANYWHERE = (
    re.compile(r"\b(?:drop|truncate)\s{1,9}(?:table|database|schema|index|view)\b", re.IGNORECASE),
    re.compile(r"\bdelete\s{1,9}from\b", re.IGNORECASE),
    re.compile(r"\balter\s{1,9}table\b", re.IGNORECASE),
    re.compile(r"\brmtree\s{0,9}\("),
    re.compile(r">\s{0,9}/dev/(?:sd|nvme|vd|mmcblk)"),
)
_BREAKS = re.compile(r"[;&|(){}\n`!<>]+")
_QUOTES = re.compile(r"['\"]+")
_ASSIGNMENT = re.compile(r"\w+=")


def risky(command: str, more: Sequence[str] = ()) -> str | None:
    """Return the part of a command that makes it risky; None if there is none.

    Args:
        command: the text for bash or a kernel.
        more: the session's own regular expressions, searched in the text.
    """
    text = command[:MOST].replace("\\\n", " ")
    for words in _simple(text):
        for rest in _starts(words):
            name = _name(rest[0])
            rule = _rules().get(name) or (_always if name.startswith("mkfs") else None)
            if rule is not None and rule(rest[1:]):
                return " ".join([name, *rest[1:4]])[:60]
    for pattern in ANYWHERE:
        if match := pattern.search(text):
            return match[0]
    return next((own for own in more if _own(own).search(text)), None)


def _simple(text: str) -> Iterator[list[str]]:
    """Yield the words of each simple command, without quotes, and of the commands within quotes."""
    for form in dict.fromkeys((_QUOTES.sub("", text), _QUOTES.sub("\n", text))):
        for part in _BREAKS.split(form):
            if words := part.replace("$", " ").split():
                yield words


def _starts(words: list[str]) -> Iterator[list[str]]:
    """Yield the positions where the program can be: the beginning, or after words that lead a command."""
    at = 0
    while at < len(words) and _ASSIGNMENT.match(words[at]):
        at += 1
    if at == len(words):
        return
    yield words[at:]
    if _name(words[at]) in LEADERS:
        for start in range(at + 1, min(at + 1 + BEHIND, len(words))):
            yield words[start:]


def _name(word: str) -> str:
    return word.rpartition("/")[2]


def _pip(args: Words) -> bool:
    rest = args[1:] if args[:1] == ["pip"] else args
    return _PIP(rest) or _verb("add", "remove", "update", "upgrade", "create")(rest)


@functools.cache
def _rules() -> dict[str, Rule]:
    return {name: rule for names, rule in RULES for name in names}


@functools.lru_cache(256)
def _own(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.MULTILINE)
