"""The homes that people sign in to: the server's own and its teams', each with its keys and names.

A person of several teams has a key and a name in each of them, and signs in to one at a time. Does not know
issuers.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import dataclass

from holdfast.base.text import plain
from holdfast.errors import NotPermitted
from holdfast.runtime.access.access_keys import AccessKey, AccessKeys
from holdfast.runtime.access.audit_trail import AuditTrail
from holdfast.runtime.access.name_owners import NameOwners
from holdfast.runtime.page.page_keys import PageKeys
from holdfast.runtime.serve.access_key_requests import PageVisitor
from holdfast.runtime.sign_in.issuer_settings import Person

_ID = re.compile(rb"h[fp]_([0-9a-f]{12})_")


@dataclass(frozen=True, slots=True)
class PeopleHome:
    """A home whose keys people get; `team` is empty for the server's own."""

    team: str
    keys: AccessKeys
    owners: NameOwners
    pages: PageKeys
    trail: AuditTrail | None

    def let_in(self, person: Person, issuer: str, seconds: float) -> HeldKey:
        """Give a key to a person, by their role here; in a thread.

        Raises:
            NotPermitted: a different person has the name.
            StoreError: the home cannot be written.
        """
        role = person.roles[self.team]
        self.owners.claim(person.name, issuer, person.subject, role=role, team=self.team)
        key, text = self.keys.sign_in(person.name, [role], seconds)
        return HeldKey(self, key, text)


@dataclass(frozen=True, slots=True)
class HeldKey:
    """A key and its home; the text is known where the key was just made."""

    home: PeopleHome
    key: AccessKey
    text: str = ""

    def short(self, seconds: float) -> str:
        """Return the key of a page for it."""
        visitor = PageVisitor(self.key.actor, self.key.id)
        return self.home.pages.key(visitor, time.time(), self.key.expires_at, seconds=seconds)


class PeopleHomes:
    """The homes of one server. One with teams sets how they are found."""

    def __init__(self, own: PeopleHome) -> None:
        self._own = own
        self.team: Callable[[str], PeopleHome | None] = lambda _: None
        """Returns the home of a team."""
        self.holder: Callable[[str], PeopleHome | None] = lambda _: None
        """Returns the home of the team that has a key with this id."""

    def of(self, person: Person, wanted: str | None) -> list[PeopleHome]:
        """Return the homes that a person can sign in to; of a team that they want, that home.

        Raises:
            NotPermitted: there is none. A team that is not theirs is answered as one that does not exist.
        """
        asked = list(person.roles) if wanted is None else [wanted] if wanted in person.roles else []
        found = [home for each in asked if (home := self.team(each) if each else self._own) is not None]
        if not found:
            why = (
                f"no team of {person.name} exists here: {', '.join(person.roles)}"
                if wanted is None
                else f"{person.name} is not in the team '{plain(wanted, 40)}'"
            )
            raise NotPermitted(
                f"cannot sign in: {why}",
                hint="ask the server's owner: `holdfast team ls` shows the teams that exist",
            )
        return found

    def held(self, text: bytes) -> HeldKey | None:
        """Return the valid key of a text, also of the text of a page; None if there is none.

        Raises:
            StoreError: the keys cannot be read.
        """
        found = _ID.match(text)
        home = (found and self.holder(found[1].decode())) or self._own
        visitor = home.pages.visitor(text, time.time())
        key = home.keys.opened_by(text) if visitor is None else home.keys.valid(visitor.key)
        return None if key is None else HeldKey(home, key)
