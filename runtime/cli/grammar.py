"""The grammar of command lines: how a verb describes its parameters, and how its words are read.  Pure.

A verb is a function, and its signature is the description: the annotation of a parameter says which values it
takes, its default how they are written. Help, completion, manual pages and the reference are made of it.
Knows no verb. Frequent verbs wait for it, so that it loads neither `typing` nor `inspect`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, TypeVar

    Function = TypeVar("Function", bound=Callable[..., int | None])
    Names = Callable[[str], list[str]]

FLAG, TEXT, WHOLE, NUMBER, PATH = "flag", "text", "whole number", "number", "path"
_KINDS = {"bool": FLAG, "str": TEXT, "int": WHOLE, "float": NUMBER, "Path": PATH}
REQUIRED: Any = ...
"""The default of a parameter that must be given."""


TOO_MANY = "too many arguments"


class Misuse(Exception):
    """A command line that cannot be understood.

    Attributes:
        path: the verb in which it is wrong.
        unknown: the option that does not exist, if that is why.
    """

    def __init__(self, message: str, unknown: str = "", path: str = "") -> None:
        super().__init__(message)
        self.unknown, self.path = unknown, path


class Spelling:
    """The spelling of a parameter.

    Attributes:
        flags: of an option, as `("--name", "-n")` or `("--on/--off",)`; empty for an argument.
        metavar: the word for the value in the help.
        least: the smallest number that is taken.
        names: returns what it can be completed to, given what was typed of it.
    """

    __slots__ = ("default", "flags", "help", "least", "metavar", "names")

    def __init__(
        self, flags: tuple[str, ...], said: str, metavar: str, default: Any, least: float | None, names: Any
    ) -> None:
        self.flags, self.help, self.metavar, self.default = flags, said, metavar, default
        self.least, self.names = least, names


class Together:
    """Several options that a verb receives in one mapping, if given.

    Attributes:
        parameters: returns name, annotation and spelling of each, when its verb is read.
    """

    __slots__ = ("parameters",)

    def __init__(self, parameters: Callable[[], Iterable[tuple[str, str, Spelling]]]) -> None:
        self.parameters = parameters


SET_APART: Any = object()
"""The default of a parameter that is whether `--` stood among the words."""
_OWN_NAME = ("--",)


def argument(
    metavar: str,
    *,
    help: str = "",  # noqa: A002 - its name everywhere
    default: Any = REQUIRED,
    names: Names | None = None,
) -> Any:
    """Return the default of a positional parameter; see `Spelling`."""
    return Spelling((), help, metavar, default, None, names)


def option(
    *flags: str,
    help: str = "",  # noqa: A002
    metavar: str = "",
    default: Any = None,
    least: float | None = None,
    names: Names | None = None,
) -> Any:
    """Return the default of a parameter that is an option, by its own name if no flag is given."""
    return Spelling(flags or _OWN_NAME, help, metavar, default, least, names)


def examples(*lines: str) -> Callable[[Function], Function]:
    """Return a decorator that gives a verb examples: the words after `holdfast`, as people type them."""

    def decorated(function: Function) -> Function:
        vars(function)["examples"] = lines
        return function

    return decorated


class Parameter:
    """A parameter of a verb.

    Attributes:
        kind: the values it takes, one of the constants above.
        many: it can be given more than once.
        choices: all its values, if they are few.
        on: its flags; empty for an argument.
        off: flags that turn a switch off.
        metavar: the word for the value in the help; empty for a switch.
        group: the name of the parameter of the function that gets it together with others.
    """

    __slots__ = (
        "choices",
        "default",
        "group",
        "help",
        "kind",
        "least",
        "many",
        "metavar",
        "name",
        "names",
        "off",
        "on",
    )

    def __init__(self, name: str, annotation: str, spelling: Spelling, group: str = "") -> None:
        self.name, self.group, self.help = name, group, spelling.help
        self.least, self.names = spelling.least, spelling.names
        form = annotation.removesuffix(" | None")
        self.many = form.startswith("list[")
        form = form[5:-1] if self.many else form
        self.choices: tuple[str, ...] = ()
        if form.startswith("Literal["):
            self.choices, form = tuple(each.strip("\"' ") for each in form[8:-1].split(",")), "str"
        self.kind = _KINDS[form]
        self.default = False if annotation == "bool" and spelling.default is None else spelling.default
        if self.kind == NUMBER and isinstance(self.default, int):
            self.default = float(self.default)
        self.on: tuple[str, ...] = ()
        self.off: tuple[str, ...] = ()
        for flag in spelling.flags:
            on, _, off = flag.partition("/")
            self.on += (f"--{name.rstrip('_').replace('_', '-')}" if on == "--" else on,)
            self.off += (off,) if off else ()
        self.metavar = "" if self.kind == FLAG else spelling.metavar or self._metavar()
        if self.many and not self.on and "..." not in self.metavar:
            self.metavar += "..."

    def _metavar(self) -> str:
        if self.choices:
            return "|".join(self.choices)
        return "N" if self.kind in (WHOLE, NUMBER) else max(self.on, key=len).lstrip("-").upper()

    @property
    def is_required(self) -> bool:
        """Whether it must be given."""
        return self.default is REQUIRED

    def shown(self) -> str:
        """Return its name in messages."""
        return " / ".join(self.on) or str(self.metavar)

    def choose(self) -> str:
        """Return the choices, as the end of a message."""
        return f": one of {', '.join(self.choices)}" if self.choices else ""

    def value(self, text: str) -> Any:
        """Return the value of a text.

        Raises:
            Misuse: it stands for none.
        """
        if self.kind == PATH:
            from pathlib import Path

            return Path(text)
        if self.kind == TEXT:
            if self.choices and text not in self.choices:
                listed = ", ".join(f"'{each}'" for each in self.choices)
                raise Misuse(f"{self.shown()} is '{text}', which is not one of {listed}")
            return text
        try:
            number = int(text) if self.kind == WHOLE else float(text)
        except ValueError:
            raise Misuse(f"{self.shown()} is '{text}', which is not a {self.kind}") from None
        if self.least is not None and not number >= self.least:
            raise Misuse(f"{self.shown()} must be at least {self.least}")
        return number


class Verb:
    """A verb: its words, its parameters in order, and its function."""

    __slots__ = ("doc", "examples", "function", "parameters", "path", "set_apart")

    def __init__(self, path: str, function: Callable[..., int | None]) -> None:
        self.path, self.function = path, function
        self.doc = function.__doc__ or ""
        self.examples: tuple[str, ...] = vars(function).get("examples", ())
        self.parameters: list[Parameter] = []
        self.set_apart = ""
        for name, annotation, spelling in _signature(function):
            if spelling is SET_APART:
                self.set_apart = name
            elif isinstance(spelling, Together):
                self.parameters += [Parameter(*each, group=name) for each in spelling.parameters()]
            else:
                self.parameters.append(Parameter(name, annotation, spelling))

    @property
    def arguments(self) -> list[Parameter]:
        """The positional parameters."""
        return [each for each in self.parameters if not each.on]

    @property
    def options(self) -> list[Parameter]:
        """The parameters that have flags."""
        return [each for each in self.parameters if each.on]


def _signature(function: Callable[..., int | None]) -> Iterator[tuple[str, str, Any]]:
    """Yield the name, the annotation as it is written, and the default of each parameter."""
    found: Any = function
    code, defaults = found.__code__, found.__defaults__ or ()
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    given = dict(zip(names[code.co_argcount - len(defaults) : code.co_argcount], defaults, strict=True))
    given |= found.__kwdefaults__ or {}
    for name in names:
        yield name, found.__annotations__[name], given[name]


class Words:
    """The words of a command line, sorted: the values of each option, and the other words."""

    def __init__(self, verb: Verb, words: Sequence[str], *, leading: bool = False) -> None:
        """Sort the words; with `leading`, options only, up to the first other word.

        Raises:
            Misuse: there is no such option, or it lacks its value, or has one that it does not take.
        """
        self.given: dict[str, list[str | bool]] = {}
        self.others: list[str] = []
        self.wants_help = False
        self._flags = {flag: each for each in verb.options for flag in (*each.on, *each.off)}
        self._left = list(reversed(words))
        self._verb = verb
        self._too_many: Sequence[str | bool] = ()
        self._set_apart = "--" in words
        try:
            self._sort(leading=leading)
        except Misuse as error:
            error.path = verb.path
            raise

    def _sort(self, *, leading: bool) -> None:
        while self._left:
            word = self._left.pop()
            if word == "--":
                break
            if len(word) < 2 or not word.startswith("-"):
                self.others.append(word)
                if leading:
                    break
            elif word == "--help":
                self.wants_help = True
            elif word.startswith("--"):
                self._long(word)
            else:
                self._short(word)
        self.others += reversed(self._left)

    def _long(self, word: str) -> None:
        flag, equals, value = word.partition("=")
        found = self._flags.get(flag)
        if found is None:
            raise Misuse(self._unknown(flag), flag)
        if found.kind != FLAG:
            self._add(found, value if equals else self._next(flag))
        elif equals:
            raise Misuse(f"{flag} does not take a value")
        else:
            self._add(found, flag in found.on)

    def _short(self, word: str) -> None:
        """Process letters behind one dash; the first one that takes a value gets the rest."""
        for at, letter in enumerate(word[1:], 1):
            found = self._flags.get(f"-{letter}")
            if found is None:
                raise Misuse(f"there is no option -{letter}", f"-{letter}")
            if found.kind == FLAG:
                self._add(found, True)
                continue
            self._add(found, word[at + 1 :] or self._next(f"-{letter}"))
            return

    def _add(self, parameter: Parameter, value: str | bool) -> None:
        self.given.setdefault(parameter.name, []).append(value)

    def _next(self, flag: str) -> str:
        if not self._left:
            raise Misuse(f"{flag} needs a value")
        return self._left.pop()

    def _unknown(self, flag: str) -> str:
        similar = ", ".join(sorted(near(flag, [*filter(_is_long, self._flags), "--help"])))
        return f"there is no option {flag}{f'; similar ones are {similar}' if similar else ''}"

    def values(self) -> dict[str, Any]:
        """Return the value of every parameter of the verb's function.

        Raises:
            Misuse: something is missing, or too much, or no value of its parameter.
        """
        try:
            return self._values()
        except Misuse as error:
            error.path = self._verb.path
            raise

    def _values(self) -> dict[str, Any]:
        by_name = {each.name: each for each in self._verb.options}
        read = {name: self._read(by_name[name], texts) for name, texts in self.given.items()}
        for each, texts in self._placed():
            read[each.name] = self._read(each, texts)
        values: dict[str, Any] = {self._verb.set_apart: self._set_apart} if self._verb.set_apart else {}
        for each in self._verb.parameters:
            if each.name not in read and each.is_required:
                raise Misuse(f"{each.shown()} is missing{each.choose()}")
            value = read.get(each.name, each.default)
            if not each.group:
                values[each.name] = value
            else:
                values.setdefault(each.group, {}).update({each.name: value} if each.name in read else {})
        if self._too_many:
            raise Misuse(f"{TOO_MANY}: {' '.join(map(str, self._too_many))}")
        return values

    def _placed(self) -> Iterator[tuple[Parameter, list[str | bool]]]:
        """Yield arguments with their words, and keep surplus words."""
        others: list[str | bool] = list(self.others)
        for each in self._verb.arguments:
            taken = others if each.many else others[:1]
            if taken:
                yield each, taken
            elif each.is_required:
                raise Misuse(f"{each.shown()} is missing{each.choose()}")
            others = others[len(taken) :]
        self._too_many = others

    @staticmethod
    def _read(parameter: Parameter, texts: Sequence[str | bool]) -> Any:
        if parameter.kind == FLAG:
            return texts[-1]
        read = [parameter.value(str(each)) for each in texts]
        return read if parameter.many else read[-1]


def _is_long(flag: str) -> bool:
    return flag.startswith("--")


def near(word: str, known: Iterable[str]) -> list[str]:
    """Return the known words that are similar to one, the most similar first."""
    import difflib

    return difflib.get_close_matches(word, list(known))
