"""The command line: from its words to the verb that carries them out, and to the exit code.

Exit codes: 0, or that of the command run; 1 for an error, 2 for wrong usage, 75 if the command waits for
input, 124 after a timeout, 130 when interrupted. Loads the verb that it needs and no other.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Collection, Sequence

from holdfast.base.home import Home
from holdfast.runtime.cli import grammar, guesses, printing, reporting, verb_table
from holdfast.runtime.cli.caller import COMPLETION, EarlyOptions
from holdfast.runtime.cli.grammar import TOO_MANY, Misuse, Words, argument, option

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TextIO

    Call = Callable[[], int]

WRONG = 2
"""Exit code for wrong usage."""


def early(
    words: list[str] = argument("VERB ...", default=()),
    json: bool = option("--json", help="One JSON object or list on standard output."),
    as_: str | None = option(
        "--as", metavar="ACTOR", help="The actor for the journal: agent:NAME or person:NAME."
    ),
    reason: str | None = option("--reason", metavar="TEXT", help="Why, for the journal."),
    team: str | None = option("--team", metavar="NAME", help="The team that is meant, not the home itself."),
    quiet: bool = option("--quiet", "-q", help="Do not show on the terminal what is under way."),
    verbose: bool = option(
        "--verbose", "-v", help="Show each request to engine and sessions, with its seconds."
    ),
    version: bool = option("--version", help="Show the version."),
    help_all: bool = option("--help-all"),
    install_completion: bool = option(
        "--install-completion", help="Install completion for the current shell, or for the shell named next."
    ),
    show_completion: bool = option("--show-completion", help="Show the script of a shell."),
) -> int:
    """Sandbox sessions whose live execution state can be captured, restored and forked."""
    if version:
        from holdfast.base.version import VERSION

        printing.say(VERSION)
    elif help_all:
        from holdfast.runtime.cli import help_pages

        sys.stdout.write(help_pages.of_each())
    else:
        from holdfast.runtime.cli import completion

        return completion.offer(words[0] if words else "", install=install_completion)
    return 0


EARLY = grammar.Verb("", early)


def call(given: Sequence[str]) -> int:
    """Run one command line and return its exit code; every error has been shown."""
    return prepared(given)()


def prepared(given: Sequence[str]) -> Call:
    """Return the function that runs a command line, with all that it needs loaded."""
    if COMPLETION in os.environ:
        return _complete
    words, notes = guesses.translated(given)
    for note in notes:
        printing.note(note)
    as_json = reporting.wants_json(words)
    try:
        run = _understood(words, as_json=as_json)
    except Misuse as error:
        misuse = error
        return lambda: _misused(misuse, as_json=as_json)
    return lambda: reporting.reported(run, as_json=as_json)


def _understood(given: Sequence[str], *, as_json: bool) -> Call:
    """Return the function that carries a command line out.

    Raises:
        Misuse: it cannot be understood.
    """
    leading = Words(EARLY, given, leading=True)
    values = leading.values()
    EarlyOptions.json, EarlyOptions.actor = values["json"], values["as_"]
    EarlyOptions.reason, EarlyOptions.quiet = values["reason"], values["quiet"]
    Home.team = values["team"] or ""
    if values["verbose"]:
        from holdfast.runtime.cli import asked_lines

        asked_lines.show()
    if leading.wants_help or not given:
        return lambda: _help("", is_asked=leading.wants_help)
    if any(values[name] for name in ("version", "help_all", "install_completion", "show_completion")):
        return lambda: early(**values)
    name, words = _next(verb_table.VERBS, values["words"], "")
    if not (below := verb_table.below(name)):
        return _verb(name, words)
    if not as_json and words in ([], ["--help"]):
        return lambda: _help(name, is_asked=bool(words))
    second, words = _next(below, words, name)
    return _verb(f"{name} {second}", words)


def _next(known: Collection[str], words: Sequence[str], path: str) -> tuple[str, list[str]]:
    """Return the first known verb, and the words after it."""
    first, *rest = words or [""]
    if first in known:
        return first, rest
    if first.startswith("-"):
        raise Misuse(f"there is no option {first}", path=path)
    if not first:
        raise Misuse("a verb is missing", path=path)
    similar = ", ".join(f"'{each}'" for each in grammar.near(first, known))
    raise Misuse(f"there is no verb '{first}'{f'; did you mean {similar}?' if similar else ''}", path=path)


def _verb(path: str, given: Sequence[str]) -> Call:
    verb = verb_table.load(path)
    words = Words(verb, given)
    if words.wants_help:
        return lambda: _help(path)
    values = words.values()
    return lambda: verb.function(**values) or 0


def _help(path: str, *, is_asked: bool = True) -> int:
    """Show the help of all verbs, of a group or of a verb; as an error if it was not requested."""
    from holdfast.runtime.cli import help_pages

    to = sys.stdout if is_asked else sys.stderr
    columns = min(_columns(to), help_pages.WIDEST)
    if not path:
        text = help_pages.of_all(EARLY, columns)
    elif path in verb_table.VERBS and verb_table.below(path):
        text = help_pages.of_group(path, columns)
    else:
        text = help_pages.of_verb(verb_table.load(path), columns)
    to.write(text)
    return 0 if is_asked else WRONG


def _columns(to: TextIO) -> int:
    """Return the width of the terminal, by the rules of `shutil.get_terminal_size`."""
    chosen = os.environ.get("COLUMNS", "")
    if chosen.isdecimal() and int(chosen) > 0:
        return int(chosen)
    try:
        return os.get_terminal_size(to.fileno()).columns or 80
    except (OSError, ValueError):
        return 80


def _misused(error: Misuse, *, as_json: bool) -> int:
    """Report a command line that cannot be understood, with a hint."""
    verb = error.path
    hint = f"`holdfast {verb}{' ' * bool(verb)}--help`"
    if error.unknown and verb in ("exec", "run", "retry", "bisect"):
        hint = f"options of the command itself go behind `--`: `holdfast {verb} NAME -- ls -la`; {hint}"
        if verb == "exec" and error.unknown in ("-i", "-t"):
            hint = "`holdfast attach NAME` puts you at the session's shell; " + hint
    if verb == "new" and str(error).startswith(TOO_MANY):
        hint = f"an image is an option: `holdfast new NAME --image IMAGE`; {hint}"
    printing.report("usage", f"cannot understand this: {error}", hint, as_json=as_json)
    return WRONG


def _complete() -> int:
    from holdfast.runtime.cli import completion

    text, code = completion.answer(EARLY)
    printing.say(text)
    return code
