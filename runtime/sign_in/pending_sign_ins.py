"""The memory of a server between two requests of one sign-in: each entry for one use and some minutes.  Pure.

Strangers begin sign-ins: there are at most 4096, and the rate of the door lets in fewer while one is kept.
"""

from __future__ import annotations

import secrets
from collections import OrderedDict
from dataclasses import dataclass
from typing import Generic, TypeVar

MOST = 4096
Kept = TypeVar("Kept")


@dataclass(frozen=True, slots=True)
class Begun:
    """A sign-in for which a browser is away at an issuer."""

    issuer: str
    binding: str
    """The browser has it in a cookie: a state that is taken to another browser opens nothing."""
    nonce: str
    verifier: str


class OneTimeCodes(Generic[Kept]):
    """Codes that stand for something once, for some seconds."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._kept: OrderedDict[str, tuple[float, Kept]] = OrderedDict()

    def add(self, what: Kept, now: float, code: str | None = None) -> str:
        """Remember something; return its code."""
        made = code or secrets.token_urlsafe(32)
        self._kept[made] = (now, what)
        while len(self._kept) > MOST:
            self._kept.popitem(last=False)
        return made

    def take(self, code: object, now: float) -> tuple[float, Kept] | None:
        """Return the meaning of a code and the time since when, and forget it; None for an unknown code."""
        found = self._kept.pop(code, None) if isinstance(code, str) else None
        return found if found is not None and now < found[0] + self._seconds else None

    def has(self, code: str, now: float) -> bool:
        """Return whether a code stands for something."""
        found = self._kept.get(code)
        return found is not None and now < found[0] + self._seconds
