"""Completion: scripts for bash, zsh and fish, and the answers to each press of Tab.

A shell asks the command itself, by environment variables, so that names of sessions are current. These
variables have the names that scripts use which people have installed.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence

from holdfast.runtime.cli import grammar, help_pages, printing, verb_table
from holdfast.runtime.cli.caller import COMPLETION

_LINE = "_TYPER_COMPLETE_ARGS"
_FISH_ACTION = "_TYPER_COMPLETE_FISH_ACTION"
SCRIPTS: Mapping[str, str] = {
    "bash": f"""\
_holdfast_completion() {{
    local IFS=$'\\n'
    COMPREPLY=( $( env COMP_WORDS="${{COMP_WORDS[*]}}" \\
                   COMP_CWORD=$COMP_CWORD \\
                   {COMPLETION}=complete_bash $1 ) )
    return 0
}}

complete -o default -F _holdfast_completion holdfast
""",
    "zsh": f"""\
#compdef holdfast

_holdfast_completion() {{
  eval $(env {_LINE}="${{words[1,$CURRENT]}}" {COMPLETION}=complete_zsh holdfast)
}}

# Autoloaded from a folder, this file is the function itself, and has to answer the first press as well.
if [[ $zsh_eval_context[-1] == loadautofunc ]]; then
  _holdfast_completion "$@"
else
  compdef _holdfast_completion holdfast
fi
""",
    "fish": "complete --command holdfast --no-files"
    + "".join(
        f' --{how} "{open_}env {COMPLETION}=complete_fish {_FISH_ACTION}={action}'
        f' {_LINE}=(commandline -cp) holdfast{close}"'
        for how, action, open_, close in (
            ("arguments", "get-args", "(", ")"),
            ("condition", "is-args", "", ""),
        )
    )
    + "\n",
}
"""The script that each shell sources."""
Items = Sequence[tuple[str, str]]


def answer(early: grammar.Verb, environ: Mapping[str, str] = os.environ) -> tuple[str, int]:
    """Return the answer to the question of a shell, and the exit code."""
    action, _, shell = environ.get(COMPLETION, "").partition("_")
    if shell not in SCRIPTS or action not in ("source", "complete"):
        return "", 1
    if action == "source":
        return SCRIPTS[shell].rstrip(), 0
    words = _words_of_bash(environ) if shell == "bash" else _words_of_line(environ.get(_LINE, ""))
    items = [(value, text) for value, text in found(early, words[:-1], words[-1])]
    if shell == "bash":
        return "\n".join(value for value, _ in items), 0
    if shell == "zsh":
        return _shown_in_zsh(items), 0
    if environ.get(_FISH_ACTION) == "is-args":
        return "", 0 if items else 1
    return "\n".join(f"{value}\t{' '.join(text.split())}" if text else value for value, text in items), 0


def _words_of_bash(environ: Mapping[str, str]) -> list[str]:
    words = _split(environ.get("COMP_WORDS", ""))
    at = environ.get("COMP_CWORD", "")
    place = int(at) if at.isdigit() else len(words)
    return [*words[1:place], words[place] if place < len(words) else ""]


def _words_of_line(line: str) -> list[str]:
    words = _split(line)[1:]
    return words if words and not line.endswith(" ") else [*words, ""]


def _split(line: str) -> list[str]:
    """Return the words of a line, whose last quotes can be open."""
    if not any(char in line for char in "'\"\\"):
        return line.split()
    import shlex

    lexer = shlex.shlex(line, posix=True)
    lexer.whitespace_split, lexer.commenters = True, ""
    words: list[str] = []
    try:
        words += lexer
    except ValueError:  # no closing quote
        words.append(lexer.token)
    return words


def _shown_in_zsh(items: Items) -> str:
    lines = "\n".join(
        f'"{_escaped(value)}":"{_escaped(text)}"' if text else f'"{_escaped(value)}"' for value, text in items
    )
    return f"_arguments '*: :(({lines}))'" if items else "_files"


def _escaped(text: str) -> str:
    """Return a text for zsh's `_arguments`, within double quotes within single ones."""
    for char, escaped in (('"', '""'), ("'", "'\\''"), ("$", "\\$"), ("`", "\\`"), (":", "\\\\:")):
        text = text.replace(char, escaped)
    return text


def found(early: grammar.Verb, before: Sequence[str], begun: str) -> Iterator[tuple[str, str]]:
    """Yield the possible completions of a word after other words, with a line about each."""
    verb, words = early, list(before)
    names: Mapping[str, str] = {name: line for name, (line, _) in verb_table.VERBS.items()}
    while verb is early:
        sorted_ = _sorted(verb, words, leading=True)
        if sorted_ is None or not sorted_.others:
            break
        name, *words = sorted_.others
        path = f"{verb.path} {name}".strip()
        if name not in names:
            return
        if below := verb_table.below(name) if path == name else {}:
            if not words:
                yield from _matching(((one, _line(f"{name} {one}")) for one in below), begun)
                return
            path, words = f"{name} {words[0]}", words[1:]
            if path not in verb_table.paths():
                return
        verb = verb_table.load(path)
    yield from _of_verb(verb, words, begun, names if verb is early else {})


def _line(path: str) -> str:
    return help_pages.summary(verb_table.load(path))


def _matching(items: Iterator[tuple[str, str]], begun: str) -> Iterator[tuple[str, str]]:
    return ((value, text) for value, text in items if value.startswith(begun))


def _sorted(verb: grammar.Verb, words: Sequence[str], *, leading: bool = False) -> grammar.Words | None:
    try:
        return grammar.Words(verb, words, leading=leading)
    except grammar.Misuse:
        return None


def _of_verb(
    verb: grammar.Verb, words: Sequence[str], begun: str, names: Mapping[str, str]
) -> Iterator[tuple[str, str]]:
    flags = {flag: each for each in verb.options for flag in (*each.on, *each.off)}
    apart = "--" in words
    last = flags.get(words[-1]) if words and not apart else None
    if last is not None and last.metavar:
        yield from _of_value(last, begun)
        return
    given = _sorted(verb, words)
    if begun.startswith("-") and not apart:
        taken = given.given if given is not None else {}
        open_ = (
            (flag, each.help)
            for flag, each in flags.items()
            if each.help and (each.many or each.name not in taken)
        )
        yield from _matching(open_, begun)
        yield from _matching(iter((help_pages.HELP,)), begun)
    elif names:
        yield from _matching(iter(names.items()), begun)
    else:
        count = len(given.others) if given is not None else 0
        for at, each in enumerate(verb.arguments):
            if at == count or each.many:
                yield from _of_value(each, begun)
                return


def _of_value(parameter: grammar.Parameter, begun: str) -> Iterator[tuple[str, str]]:
    values = parameter.names(begun) if parameter.names is not None else parameter.choices
    return ((value, "") for value in values if value.startswith(begun))


def offer(wanted: str, *, install: bool) -> int:
    """Show the script of a shell, or install it; by default for the shell that the caller uses."""
    shell = wanted if wanted in SCRIPTS else _shell_of_caller()
    if shell is None:
        printing.note(f"cannot complete in this shell; there is completion for {', '.join(SCRIPTS)}")
        return 1
    if not install:
        sys.stdout.write(SCRIPTS[shell])
        return 0
    printing.say(f"{shell} completion installed in {_installed(shell)}")
    printing.say("Completion will take effect once you restart the terminal")
    return 0


def _installed(shell: str) -> str:
    """Make a shell of this user source its completion, and return the file with the setting."""
    from pathlib import Path

    home = Path.home()
    places = {
        "bash": (".bash_completions/holdfast.sh", ".bashrc", "source '{}'"),
        "zsh": (".zfunc/_holdfast", ".zshrc", "fpath+=~/.zfunc; autoload -Uz compinit; compinit"),
        "fish": (".config/fish/completions/holdfast.fish", "", ""),
    }
    where, settings, line = places[shell]
    (file := home / where).parent.mkdir(parents=True, exist_ok=True)
    file.write_text(SCRIPTS[shell], encoding="utf-8")
    if settings:
        before = (home / settings).read_text(encoding="utf-8") if (home / settings).is_file() else ""
        if (wanted := line.format(file)) not in before:
            (home / settings).write_text(f"{before.rstrip()}\n{wanted}\n".lstrip(), encoding="utf-8")
    return str(file)


def _shell_of_caller() -> str | None:
    """Return the shell that this process was started from, if there is completion for it."""
    from pathlib import Path

    pid = os.getppid()
    while pid > 1:
        try:
            name, _, rest = Path(f"/proc/{pid}/stat").read_text().partition("(")[2].rpartition(")")
        except OSError:
            break
        if name in SCRIPTS:
            return name
        pid = int(rest.split()[1])
    name = os.environ.get("SHELL", "").rpartition("/")[2]
    return name if name in SCRIPTS else None
