"""The options of a session are described once, and each place that has options has them from there."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.runtime.api.option_types import NewOptions
from holdfast.runtime.cli import verb_table
from holdfast.runtime.cli.arguments import session_options
from holdfast.runtime.cli.grammar import Verb, Words, argument
from holdfast.runtime.guest.identity.identity import CHOSEN
from holdfast.runtime.sessions import option_table
from holdfast.runtime.sessions.option_table import OPTIONS
from holdfast.runtime.sessions.session_options import SessionOptions


def test_table_types_and_checks_have_the_same_options() -> None:
    """A new option needs its field, its row and its type for editors, in these three files."""
    names = [option.name for option in OPTIONS]
    assert sorted(names) == sorted(SessionOptions.model_fields)
    assert sorted(names) == sorted(NewOptions.__annotations__)
    assert set(CHOSEN) <= set(names)


def test_each_option_moves_or_keeps_a_session_here() -> None:
    """Options that need this machine keep the session here."""
    staying = {option.name for option in OPTIONS if not option.moves}
    assert staying == {"image", "mounts", "secrets"}


def test_nothing_of_this_machine_and_no_secret_is_exported() -> None:
    """Variables often hold secrets, and the importer decides a session's network."""
    assert not {"env", "secrets", "mounts", "allow", "domains", "image"} & set(option_table.EXPORTED)
    assert set(option_table.TAKEN_OVER) <= set(option_table.EXPORTED)
    assert not {"network", "allow", "memory", "pids", "cpus"} & set(option_table.TAKEN_OVER)


@pytest.mark.parametrize("verb", ["new", "ci run", "mcp"])
def test_a_verb_has_the_flags_of_its_options(verb: option_table.Verb) -> None:
    """Each verb that starts sessions has a parameter for each option of its rows."""
    offered = {option.name: option.flag for option in option_table.offered_by(verb)}
    assert offered.items() <= {each.name: each.on[0] for each in verb_table.load(verb).options}.items()


def test_missing_options_are_not_passed_on_and_zero_is() -> None:
    """`--cpus 0` is refused by the check of options and must reach it."""
    received: dict[str, Any] = {}

    def verb(
        other: str = argument("OTHER"),
        options: dict[str, Any] = session_options("mcp"),
    ) -> None:
        received.update(options, other=other)

    verb(**Words(Verb("mcp", verb), ["x", "--cpus", "0"]).values())
    assert received == {"other": "x", "cpus": 0.0}
