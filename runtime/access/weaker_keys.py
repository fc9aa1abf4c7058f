"""Keys that the holder of a key makes and revokes: they do no more than that key, and act under its name.

A key of `agent:ci` named `nightly` acts as `agent:ci/nightly`, so quotas, the journal and the audit trail
count it to its maker. Knows no request; holders of the server's own token are not bound.
"""

from __future__ import annotations

import time
from collections.abc import Iterable

from holdfast.base.text import plain
from holdfast.errors import InvalidArgument, NotPermitted
from holdfast.runtime.access import permissions
from holdfast.runtime.access.access_keys import LINK, AccessKey, AccessKeys


def make(
    keys: AccessKeys,
    maker: AccessKey | None,
    name: str,
    scopes: Iterable[str],
    *,
    person: bool = False,
    session: str = "",
    seconds: float | None = None,
    of_e2b: bool = False,
) -> tuple[AccessKey, str]:
    """Make a key; return it with its text. See `AccessKeys.create`.

    Args:
        keys: of the home.
        maker: the key of the caller; None for the server's own token.
        name: added to the maker's.
        scopes: scopes and roles, all of which the maker has.
        person: a person uses it; with a maker it is of the maker's kind.
        session: the id of the only session it is for.
        seconds: until it expires, which is not later than its maker does.
        of_e2b: give its text the form that clients of E2B accept.

    Raises:
        NotPermitted: it could do more than its maker.
        InvalidArgument: the name is not valid or in use, or a scope does not exist.
        StoreError: the home cannot be written.
    """
    may = permissions.expanded(scopes)
    if maker is None:
        kind = "person" if person else "agent"
        return keys.create(name, may, kind=kind, session=session, seconds=seconds, of_e2b=of_e2b)
    if lacking := [each for each in permissions.SCOPES if each in may - maker.scopes]:
        raise NotPermitted(
            f"cannot make a key with {', '.join(lacking)}: the key {maker.name} does not have that itself",
            hint="give it less, or ask a holder of more rights",
        )
    if maker.expires_at:
        seconds = min(seconds or float("inf"), max(1.0, maker.expires_at - time.time()))
    return keys.create(
        name, may, kind=maker.kind, session=session, seconds=seconds, of_e2b=of_e2b, maker=maker.name
    )


def revoke(keys: AccessKeys, revoker: AccessKey | None, id_: str) -> AccessKey:
    """Revoke the valid key of an id, and the keys that it has made.

    Raises:
        NotPermitted: it can do more than the revoking key.
        InvalidArgument: there is not a valid key with that id.
        StoreError: the home cannot be written.
    """
    found = next((each for each in keys.list() if each.id == id_ and each.kind != LINK), None)
    if found is None:
        raise InvalidArgument(f"cannot revoke '{plain(id_, 40)}': no key has that id")
    if revoker is not None and not found.scopes <= revoker.scopes:
        raise NotPermitted(
            f"cannot revoke the key {found.name}: it can do more than the key {revoker.name}",
            hint="ask a holder of all its rights",
        )
    return keys.revoke(id_)
