"""Completion of what is typed most: a verb, or the session of a frequent one. Typer does the rest.

bash and zsh wait for it at each press of Tab.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence

from holdfast.runtime.cli.plain_forms import COMPLETION
from holdfast.runtime.cli.plain_parameters import ARGUMENTS
from holdfast.runtime.cli.verb_places import GROUP, VERBS


def matched(environ: Mapping[str, str] = os.environ) -> Callable[[], int] | None:
    """Return what prints the completions that a shell asks for; None if Typer has to find them."""
    match environ.get(COMPLETION):
        case "complete_bash":
            words, shown = _words_of_bash(environ), _shown_in_bash
        case "complete_zsh":
            words, shown = _words_of_zsh(environ), _shown_in_zsh
        case _:
            return None
    if words is None:
        return None
    *before, begun = words
    if begun.startswith("-"):
        return None
    if not before and shown is not _shown_in_zsh:  # zsh shows what each verb does
        # In Typer's order: those with verbs of their own last.
        verbs = sorted(VERBS, key=lambda verb: VERBS[verb][1] == GROUP)
        return lambda: _print(shown([verb for verb in verbs if verb.startswith(begun)]))
    if len(before) == 1 and ARGUMENTS.get(before[0], ())[:1] == ("session",):
        return lambda: _print(shown(_sessions(begun)))
    return None


def _words_of_bash(environ: Mapping[str, str]) -> list[str] | None:
    words = _split(environ.get("COMP_WORDS", ""))
    at = environ.get("COMP_CWORD", "")
    if words is None or not at.isdigit() or not 0 < int(at) <= len(words):
        return None
    return [*words[1 : int(at)], words[int(at)] if int(at) < len(words) else ""]


def _words_of_zsh(environ: Mapping[str, str]) -> list[str] | None:
    line = environ.get("_TYPER_COMPLETE_ARGS", "")
    words = _split(line)
    if not words:
        return None
    return [*words[1:], ""] if line.endswith(" ") or len(words) == 1 else words[1:]


def _split(line: str) -> list[str] | None:
    """Return the words of a line; None if quotes or backslashes make it difficult."""
    return None if any(char in line for char in "'\"\\") else line.split()


def _shown_in_bash(names: Sequence[str]) -> str:
    return "\n".join(names)


def _shown_in_zsh(names: Sequence[str]) -> str:
    quoted = "\n".join(f'"{name}"' for name in names)  # no name has a character to escape: see `ids.NAME`
    return f"_arguments '*: :(({quoted}))'" if names else "_files"


def _sessions(begun: str) -> list[str]:
    from holdfast.base.home import Home
    from holdfast.runtime.store import peek

    names = peek.names(Home.default().below("holdfast.db"), "sessions")
    return [name for name in names if name.startswith(begun)]


def _print(text: str) -> int:
    from holdfast.runtime.cli import printing

    printing.say(text)
    return 0
