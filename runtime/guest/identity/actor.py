"""The actor behind a request: an agent, a person, or the system itself, by name if it is known.

The text form is `person:alice`, or `agent` without a name. The sender is believed: the journal records who
claimed to be whom, and only the home's owner can open the socket.
"""

from __future__ import annotations

import hashlib
import re

from holdfast.base.value_classes import dataclass
from holdfast.runtime.guest.defaults import ACTOR_KINDS as KINDS

_NAME = re.compile(r"[^\x00-\x20\x7f-\x9f]{1,64}")


@dataclass(frozen=True, slots=True)
class Actor:
    """An agent, a person or the system."""

    kind: str
    name: str = ""

    def __str__(self) -> str:
        return f"{self.kind}:{self.name}" if self.name else self.kind

    @classmethod
    def parse(cls, text: str) -> Actor:
        """Return the actor of a text form.

        Raises:
            ValueError: the text is not an actor; the message is for people.
        """
        kind, colon, name = text.partition(":")
        if kind not in KINDS:
            raise ValueError(f"an actor is one of {', '.join(KINDS)}, optionally with a name: person:alice")
        if colon and not _NAME.fullmatch(name):
            raise ValueError("the name of an actor has 1 to 64 characters and no blanks")
        return cls(kind, name)


@dataclass(frozen=True, slots=True)
class Who:
    """Attribution of a request: the actor in text form, the reason, the idempotency key, a server's id."""

    actor: str = "agent"
    reason: str | None = None
    key: str | None = None
    request: str | None = None


def id_of(key: str) -> str:
    """Return the id of the command or cell that a key stands for."""
    return "k" + hashlib.sha256(key.encode("utf-8", "replace")).hexdigest()[:32]


AGENT = Actor("agent")
PERSON = Actor("person")
SYSTEM = Actor("system")
