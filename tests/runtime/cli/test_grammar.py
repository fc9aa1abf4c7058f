"""Words of command lines are read as people write them, and mistakes are named."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import pytest

from holdfast.runtime.cli import grammar
from holdfast.runtime.cli.grammar import SET_APART, Misuse, Together, Verb, Words, argument, examples, option


@examples("verb work")
def verb(
    apart: bool = SET_APART,
    session: str = argument("SESSION"),
    words: list[str] | None = argument("WORD", default=None),
    number: float | None = option("--number", "-n", least=0.5),
    count: int = option(default=3),
    kind: Literal["live", "files"] | None = option(),
    names: list[str] | None = option("--name"),
    loud: bool = option("--loud", "-l"),
    shared: bool | None = option("--shared/--own"),
    place: Path | None = option(),
    options: Any = Together(  # noqa: B008
        lambda: [
            ("cpus", "float | None", option("--cpus")),
            ("read_only", "bool", option("--read-only")),
        ]
    ),
) -> None:
    """Do it. Or not."""


def read(line: str, of: Any = verb) -> dict[str, Any]:
    """Return the values that differ from a line without options."""
    values = Words(Verb("verb", of), line.split()).values()
    usual = Words(Verb("verb", of), ["s"]).values() if of is verb else {}
    return {name: value for name, value in values.items() if name not in usual or value != usual[name]}


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("s a b", {"words": ["a", "b"]}),
        ("s -", {"words": ["-"]}),
        ("--loud s", {"loud": True}),
        ("s --number 1.5", {"number": 1.5}),
        ("s --number=1.5", {"number": 1.5}),
        ("s -n1.5", {"number": 1.5}),
        ("s -ln 1.5 a", {"loud": True, "number": 1.5, "words": ["a"]}),
        ("s --number 1 --number 2", {"number": 2.0}),
        ("s --name a --name=b --name=", {"names": ["a", "b", ""]}),
        ("s --name --loud", {"names": ["--loud"]}),
        ("s --name -- a", {"names": ["--"], "words": ["a"], "apart": True}),
        ("s -- --loud -x", {"words": ["--loud", "-x"], "apart": True}),
        ("-- s --", {"words": ["--"], "apart": True}),
        ("s --count 7", {"count": 7}),
        ("s --kind files", {"kind": "files"}),
        ("s --shared", {"shared": True}),
        ("s --shared --own", {"shared": False}),
        ("s --place a/b", {"place": Path("a/b")}),
        ("s --cpus 0 --read-only", {"options": {"cpus": 0.0, "read_only": True}}),
    ],
)
def test_words_become_values(line: str, found: dict[str, Any]) -> None:
    """Options stand anywhere before `--`, with their value after or joined to them."""
    assert read(line) == found


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("", "SESSION is missing"),
        ("s --nam a", "there is no option --nam; similar ones are --name, --number, --own"),
        ("s -x", "there is no option -x"),
        ("s -lx", "there is no option -x"),
        ("s --number", "--number needs a value"),
        ("s -n", "-n needs a value"),
        ("s --loud=1", "--loud does not take a value"),
        ("s --count 1.5", "--count is '1.5', which is not a whole number"),
        ("s -n x", "--number / -n is 'x', which is not a number"),
        ("s -n 0.4", "--number / -n must be at least 0.5"),
        ("s -n nan", "--number / -n must be at least 0.5"),
        ("s --kind x", "--kind is 'x', which is not one of 'live', 'files'"),
    ],
)
def test_wrong_parts_are_named(line: str, why: str) -> None:
    """Nothing is guessed: beginnings of options are not taken for them."""
    with pytest.raises(Misuse) as refused:
        read(line)
    assert str(refused.value) == why
    assert refused.value.path == "verb"


def test_no_word_is_left_over_and_no_option_forgotten() -> None:
    def strict(one: str = argument("ONE"), why: str = option("--why", default=grammar.REQUIRED)) -> None: ...

    assert read("a --why b", strict) == {"one": "a", "why": "b"}
    with pytest.raises(Misuse, match="--why is missing"):
        read("a b", strict)
    with pytest.raises(Misuse, match="too many arguments: b c"):
        read("a b c --why d", strict)


def test_help_is_asked_for_among_other_words() -> None:
    """Whatever is missing; behind `--` it is a word."""
    assert Words(Verb("verb", verb), ["--loud", "--help"]).wants_help
    assert not Words(Verb("verb", verb), ["s", "--", "--help"]).wants_help


def test_leading_options_end_at_the_first_word() -> None:
    words = Words(Verb("verb", verb), ["--loud", "-n", "1", "s", "--nosuch"], leading=True)
    assert words.others == ["s", "--nosuch"]


def test_a_verb_follows_its_functions_signature() -> None:
    described = Verb("verb", verb)
    assert described.examples == ("verb work",)
    assert [each.metavar for each in described.arguments] == ["SESSION", "WORD..."]
    assert {each.name: each.metavar for each in described.options} == {
        "number": "N",
        "count": "N",
        "kind": "live|files",
        "names": "NAME",
        "loud": "",
        "shared": "",
        "place": "PLACE",
        "cpus": "N",
        "read_only": "",
    }
