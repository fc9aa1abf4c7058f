"""Identifiers and names: generation and validation."""

from __future__ import annotations

import os

from holdfast.errors import InvalidArgument

NAME = r"[a-zA-Z0-9][a-zA-Z0-9_.-]{0,62}"
ID = r"[0-9a-f]{12}"

_ADJECTIVES = """
    amber bold brisk calm clear cool crisp deft eager fair fast fine firm fond free fresh glad gold grand
    keen kind light lively lucid mild neat noble proud quick quiet rapid ready sharp smart solid sound
    steady still strong sure swift tidy true vivid warm wise
"""
_NOUNS = """
    anchor arch badger basin beacon birch bison brook cedar cliff cove crane delta dune falcon fern finch
    fjord fox grove gull harbor hare heron ibis juniper lake lark lynx maple marsh meadow otter owl pine
    plover quay raven reef ridge river robin sparrow spruce stone swan tern thistle willow wren
"""


def new_id() -> str:
    """Return 12 random lowercase hex digits."""
    return os.urandom(6).hex()


def new_name() -> str:
    """Return a pronounceable name such as `calm-otter`, possibly taken already."""
    import secrets

    return f"{secrets.choice(_ADJECTIVES.split())}-{secrets.choice(_NOUNS.split())}"


def check_name(name: str, what: str = "session") -> str:
    """Return `name` if it is valid for a session or the label of a snapshot.

    It becomes a host name, and arguments take names and ids alike, so it must not look like an id.

    Raises:
        InvalidArgument: the name is not valid.
    """
    import re  # as most commands name nothing, they need not compile this

    shown = name.encode("unicode_escape").decode("ascii")[:80]
    if not re.fullmatch(NAME, name):
        raise InvalidArgument(
            f"cannot name {what} '{shown}': not a valid name",
            hint="use 1 to 63 letters, digits, '_', '.', '-', beginning with a letter or digit",
        )
    if re.fullmatch(ID, name):
        raise InvalidArgument(
            f"cannot name {what} '{shown}': it looks like an id", hint="choose another name"
        )
    return name


def series(name: str, count: int) -> list[str]:
    """Return `count` names: `name` itself for one, else name-1, name-2, …"""
    if count == 1:
        return [check_name(name)]
    return [check_name(f"{name}-{number}") for number in range(1, count + 1)]
