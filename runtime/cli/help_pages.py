"""The help of the command line: of a verb, of a group of verbs, and of all.  Pure.

Made of the descriptions that the parser reads, as are manual pages and the reference.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from holdfast.runtime.cli import grammar, verb_table

WIDEST = 80
"""Columns; longer lines are hard to read, however wide the terminal is."""
_LEFT = 30
"""The most columns of an explained term."""
_RIGHT = 24
"""The least columns of an explanation next to it."""
HELP = ("--help", "Show this message and exit.")
Rows = Sequence[tuple[str, str]]


def of_verb(verb: grammar.Verb, columns: int) -> str:
    """Return the help of a verb."""
    parts = [_usage(f"{verb.path} [OPTIONS] {places(verb)}".rstrip(), columns)]
    parts += [_paragraph(" ".join(each.split()), columns) for each in verb.doc.strip().split("\n\n")]
    if arguments := rows(verb.arguments):
        parts.append("Arguments:\n" + _listed(arguments, columns))
    parts.append("Options:\n" + _listed([*rows(verb.options), HELP], columns))
    if verb.examples:
        parts.append("\n".join(("  Examples:", *(f"    holdfast {line}" for line in verb.examples))))
    return "\n\n".join(parts) + "\n"


def places(verb: grammar.Verb) -> str:
    """Return how the arguments of a verb are written, in order."""
    return " ".join(
        each.metavar if each.is_required or each.metavar.startswith("[") else f"[{each.metavar}]"
        for each in verb.arguments
    )


def rows(parameters: Sequence[grammar.Parameter]) -> list[tuple[str, str]]:
    """Return each parameter as it is written, and its meaning."""
    return [(_written(each), "  ".join(filter(None, (each.help, _more(each))))) for each in parameters]


def _written(parameter: grammar.Parameter) -> str:
    if not parameter.on:
        return parameter.metavar
    short_first = sorted(parameter.on, key=lambda flag: flag.startswith("--"))
    off = f" / {', '.join(parameter.off)}" if parameter.off else ""
    return f"{', '.join(short_first)}{off} {parameter.metavar}".rstrip()


def _more(parameter: grammar.Parameter) -> str:
    """Return its default and its constraints."""
    default = parameter.default
    notes = []
    if parameter.is_required:
        notes.append("required")
    elif parameter.off and default is not None:
        notes.append(f"default: {(parameter.on if default else parameter.off)[0].removeprefix('--')}")
    elif default is not None and default is not False:
        notes.append(f"default: {default:g}" if isinstance(default, float) else f"default: {default}")
    if parameter.least is not None:
        notes.append(f"at least {parameter.least}")
    return f"[{'; '.join(notes)}]" if notes else ""


def of_group(group: str, columns: int) -> str:
    """Return the help of a group of verbs."""
    lines = [(name, summary(verb_table.load(f"{group} {name}"))) for name in verb_table.below(group)]
    parts = [_usage(f"{group} VERB ...", columns), _paragraph(verb_table.VERBS[group][0], columns)]
    parts += ["Verbs:\n" + _listed(lines, columns), "Options:\n" + _listed([HELP], columns)]
    return "\n\n".join(parts) + "\n"


def summary(verb: grammar.Verb) -> str:
    """Return the first sentence about a verb."""
    text = " ".join(verb.doc.split())
    return text.partition(". ")[0].rstrip(".") + "."


def of_all(early: grammar.Verb, columns: int) -> str:
    """Return the help of the whole command line: the verbs of every day, and the names of all others."""
    first, *others = verb_table.FAMILIES
    width = max(map(len, verb_table.FAMILIES))
    lines = [(verb.ljust(width), line) for verb, (line, _) in verb_table.FAMILIES[first].items()]
    names = [(family.ljust(width), ", ".join(verb_table.FAMILIES[family])) for family in others]
    parts = [
        _usage(f"[OPTIONS] {early.arguments[0].metavar}", columns),
        _paragraph(early.doc.strip(), columns),
    ]
    parts.append(f"{first}:\n{_listed(lines, columns)}")
    parts.append(f"More (`holdfast help all` lists them):\n{_listed(names, columns)}")
    options = rows([each for each in early.options if each.help and "completion" not in each.name])
    head = "\n".join(_filled("Options (`holdfast VERB --help` lists a verb's own):", columns)) + "\n"
    return "\n\n".join((*parts, head + _listed([*options, HELP], columns))) + "\n"


def of_each() -> str:
    """Return a line for every verb, in its family."""
    width = max(map(len, verb_table.VERBS))
    return "\n".join(
        f"{family}:\n" + "".join(f"  {verb.ljust(width)}  {line}\n" for verb, (line, _) in verbs.items())
        for family, verbs in verb_table.FAMILIES.items()
    )


def _usage(text: str, columns: int) -> str:
    first, *more = _filled(f"holdfast {text}", columns - 7)
    return "\n".join((f"Usage: {first}", *(f"       {line}" for line in more)))


def _paragraph(text: str, columns: int) -> str:
    return "\n".join(f"  {line}" for line in _filled(text, columns - 2))


def _listed(lines: Rows, columns: int) -> str:
    """Return terms next to their explanations, or above them where there is no room."""
    left = min(max(len(term) for term, _ in lines), _LEFT)
    if columns - left - 4 < _RIGHT:
        left = 4
    made = []
    for term, text in lines:
        filled = list(_filled(text, columns - left - 4))
        beside = len(term) <= left and bool(filled)
        made.append(f"  {term.ljust(left)}  {filled.pop(0)}" if beside else f"  {term.rstrip()}")
        made += [" " * (left + 4) + line for line in filled]
    return "\n".join(made)


def _filled(text: str, width: int) -> Iterator[str]:
    """Yield the lines of a text; double blanks stay, a longer word gets a line of its own."""
    line = ""
    for word in text.split(" "):
        if line and len(line) + 1 + len(word) > width:
            yield line.rstrip()
            line = word
        else:
            line = f"{line} {word}" if line else word
    if line:
        yield line
