"""Who does something: an agent, a person, or the system itself; by name if it is known.

The text form is `person:alice`, or `agent` without a name. Who sends it is believed: the journal tells who
said to be whom, and the socket is open to the home's owner only.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass

KINDS = ("agent", "person", "system")
_NAME = re.compile(r"[^\x00-\x20\x7f-\x9f]{1,64}")


@dataclass(frozen=True, slots=True)
class Actor:
    """One of them."""

    kind: str
    name: str = ""

    def __str__(self) -> str:
        return f"{self.kind}:{self.name}" if self.name else self.kind

    @classmethod
    def parse(cls, text: str) -> Actor:
        """Return the actor of a text form. Raises ValueError, with a message for people."""
        kind, colon, name = text.partition(":")
        if kind not in KINDS:
            raise ValueError(f"an actor is {', '.join(KINDS)}, or one of them with a name: person:alice")
        if colon and not _NAME.fullmatch(name):
            raise ValueError("the name of an actor has 1 to 64 characters and no blanks")
        return cls(kind, name)


@dataclass(frozen=True, slots=True)
class Who:
    """Who asks for something, in text form; why; and the key under which it may be done only once."""

    actor: str = "agent"
    reason: str | None = None
    key: str | None = None


def id_of(key: str) -> str:
    """Return the id of the command or cell that a key stands for."""
    return "k" + hashlib.sha256(key.encode("utf-8", "replace")).hexdigest()[:32]


AGENT = Actor("agent")
PERSON = Actor("person")
SYSTEM = Actor("system")
