"""What a command line would read or write on the caller's machine, which the one that runs it does not have.

Pure: knows the words of command lines, and nothing of what they do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from holdfast.errors import InvalidArgument

_VERBS: Mapping[str, str] = {
    "export": "pipe it: `holdfast export S - > FILE`",
    "import": "pipe it: `holdfast import - < FILE`",
    "cp": "pipe it: `holdfast cp S:PATH - | tar x`, `tar c FILE | holdfast cp - S:PATH`",
}
"""Verbs that always name a file of the caller's, unless one of their words is `-`; and what to do instead."""
_NEVER: Mapping[str, str] = {
    "ci": "run it on the engine's machine, where the job's folder is",
    "move": "run it on the engine's machine, which has the keys for the next one",
    "receive": "it is started by `holdfast move` on the engine's machine",
    "mcp": "start it on the engine's machine: `ssh HOST holdfast mcp`",
    "serve": "start it on the engine's machine, and reach its port through SSH",
    "serve-captures": "run it on the engine's machine",
}
_OPTIONS: Mapping[tuple[str, str], str] = {
    ("cell", "--save"): "leave it out: `holdfast journal S --ipynb - > FILE` has the pictures",
    ("replay", "--cast"): "pipe it: `holdfast replay S --cast - > FILE`",
    ("new", "--build"): "build it on the engine's machine, and name the image with --image",
    ("new", "--devcontainer"): "run it on the engine's machine, where the project is",
    ("journal", "--ipynb"): "pipe it: `holdfast journal S --ipynb - > FILE`",
}
"""Options that name a file of the caller's, unless it is `-`."""
_FILES = "run it on the engine's machine, or import it first: `holdfast import - < FILE`"
_WITH_FILES = ("thaw", "fits")
_VALUES = "pipe it (`=@-`) or name a variable (`=env:VARIABLE`)"
_EARLY_WITH_VALUE = ("--as", "--reason")


@dataclass(frozen=True, slots=True)
class CommandLine:
    """The words of a command line.

    Attributes:
        verb: an empty string without one.
        options: the words after the verb and before `--`.
    """

    verb: str
    options: Sequence[str]

    @classmethod
    def of(cls, given: Sequence[str]) -> CommandLine:
        """Find the verb behind the options that may be before it."""
        at = 0
        while at < len(given) and given[at].startswith("-"):
            at += 2 if given[at] in _EARLY_WITH_VALUE else 1
        rest = list(given[at + 1 :])
        return cls(given[at] if at < len(given) else "", rest[: rest.index("--")] if "--" in rest else rest)


def refuse(line: CommandLine, exists: Mapping[str, bool]) -> None:
    """Refuse a command line that names files of the caller's.

    `exists` says of words whether there is a file of that name here.

    Raises:
        InvalidArgument: it does; the hint says what to do instead.
    """
    verb, options = line.verb, line.options
    hint = _NEVER.get(verb) or next(
        (hint for (of, name), hint in _OPTIONS.items() if of == verb and _names_file(options, name)), None
    )
    if hint is None and verb in _VERBS and "-" not in options:
        hint = _VERBS[verb]
    if hint is None and verb == "task" and "import" in options[:1] and "-" not in options:
        hint = "pipe it: `holdfast task import S - < FILE`"
    if hint is None and verb == "artifact" and "get" in options[:1] and "-" not in options:
        hint = "pipe it: `holdfast artifact get NAME - > FILE`"
    if hint is None and verb in _WITH_FILES and any(exists.get(word) for word in options):
        hint = _FILES
    if hint is None and verb == "new" and any("=@" in word and "=@-" not in word for word in options):
        hint = _VALUES
    if hint is None and verb == "new" and _has_path(options, "--image"):
        hint = "load it there: `docker load < FILE`, and name the image with --image"
    if hint is not None:
        raise InvalidArgument(
            f"cannot {verb} with files of this machine: the engine is on a different machine", hint=hint
        )


def reads_input(line: CommandLine) -> bool:
    """Check whether a command reads standard input even when that is not a terminal."""
    words = line.options
    return (
        line.verb in ("attach", "cell")
        or any(word == "-" or word.endswith("=@-") for word in words)
        or (line.verb == "run" and any(word in ("-i", "--input") for word in words))
    )


def variables(line: CommandLine, environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that go with a command line: ours, the terminal's, and those that it names."""
    named = {
        word.rpartition("env:")[2] for word in line.options if word.startswith("env:") or "=env:" in word
    }
    return {
        key: value
        for key, value in environment.items()
        if key in _SHOWN or key in named or (key.startswith("HOLDFAST_") and key not in _OURS)
    }


_SHOWN = frozenset(
    (
        "TERM",
        "COLORTERM",
        "NO_COLOR",
        "LANG",
        "LC_ALL",
        "LC_CTYPE",
        "TZ",
        "USER",
        "LOGNAME",
        "COLUMNS",
        "LINES",
    )
)
_OURS = frozenset(("HOLDFAST_HOME", "HOLDFAST_REMOTE", "HOLDFAST_REMOTE_HOME", "HOLDFAST_SSH"))


def _has_path(options: Sequence[str], name: str) -> bool:
    """Check whether the value of an option is a path, which names of images are not."""
    values = [word.partition("=")[2] for word in options if word.startswith(f"{name}=")]
    values += [value for word, value in pairwise(options) if word == name]
    return any(value.startswith(("/", ".", "~")) for value in values)


def _names_file(options: Sequence[str], name: str) -> bool:
    for at, word in enumerate(options):
        if word == name:
            return list(options[at + 1 : at + 2]) != ["-"]
        if word.startswith(f"{name}="):
            return word != f"{name}=-"
    return False
