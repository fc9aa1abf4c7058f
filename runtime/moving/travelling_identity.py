"""The identity that a session keeps on a different machine: as its source sends it, and as its receiver reads
it.

Its id, the chain of its tenures, its labels, its lifetime, the links to its ports, and the settings of
clients of the E2B wire. The receiver takes only values of a known form and size: its source is trusted with
sessions of its own, not with more.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from holdfast.base import ids
from holdfast.base.text import plain
from holdfast.base.value_classes import dataclass, replace
from holdfast.errors import InvalidArgument
from holdfast.runtime.sessions import option_table, preview_grants, session_identity, session_labels
from holdfast.runtime.sessions.tenures import Tenures
from holdfast.runtime.store.lifetime import Lifetime

if TYPE_CHECKING:
    from holdfast.runtime.store.rows import SessionRow
    from holdfast.runtime.store.store import Store


LARGEST = 1 << 16
"""Characters, as JSON, of the settings of a sandbox's clients."""


@dataclass(frozen=True, slots=True)
class TravellingIdentity:
    """A receiver's reading. `sandbox` is the metadata of E2B clients; `previews` grants ports to links."""

    session_id: str
    tenures: Tenures
    labels: dict[str, str]
    sandbox: dict[str, Any] | None
    lifetime: dict[str, Any] | None
    previews: dict[str, dict[str, Any]]


def of(store: Store, session: SessionRow) -> dict[str, Any]:
    """Return the identity that a session takes along."""
    return {
        "session": session.id,
        "tenures": session_identity.tenures(store, session).kept(),
        "labels": session.details.labels,
        "sandbox": session.details.get("sandbox"),
        "lifetime": session.details.get("lifetime"),
        "previews": session.details.get(preview_grants.DETAIL),
    }


def parse(given: object) -> TravellingIdentity | None:
    """Read the identity that a session brings; None from an older source that does not send one.

    Raises:
        InvalidArgument: it is not valid.
    """
    if given is None:
        return None
    if not isinstance(given, Mapping):
        raise InvalidArgument("cannot receive: its identity is not valid")
    session_id, chain = given.get("session"), Tenures.parse(given.get("tenures"))
    if not isinstance(session_id, str) or not re.fullmatch(ids.ID, session_id) or not chain.chain:
        raise InvalidArgument("cannot receive: its identity is not valid")
    sandbox = given.get("sandbox")
    if sandbox is not None and (not isinstance(sandbox, dict) or len(json.dumps(sandbox)) > LARGEST):
        raise InvalidArgument("cannot receive: the metadata of its clients is not valid, or too large")
    labels, life = session_labels.parse(given.get("labels") or {}), given.get("lifetime")
    now = time.time()
    kept = None if life is None else replace(Lifetime.kept(life), ended=False).resumed(now).as_dict()
    previews = preview_grants.arriving(given.get("previews"), now)
    return TravellingIdentity(session_id, chain, labels, sandbox, kept, previews)


def travelling_options(name: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options that a session keeps on another machine.

    Raises:
        InvalidArgument: it uses something that only this machine has.
    """
    mounts = options.get("mounts") or ()
    if mounts:
        named = ", ".join(plain(str(one.get("source")), 100) for one in mounts[:3])
        raise InvalidArgument(
            f"cannot move {name}: it uses folders of this machine ({named})",
            hint="folders cannot be moved; a snapshot can, without them: `holdfast export`",
        )
    secrets = options.get("secrets") or ()
    if secrets:
        named = ", ".join(plain(str(one.get("name")), 60) for one in secrets[:5])
        raise InvalidArgument(
            f"cannot move {name}: it uses secrets that this machine keeps ({named})",
            hint="secrets cannot be moved",
        )
    return {
        key: options[key] for key in option_table.MOVING if options.get(key) not in (None, False, (), [], {})
    }
