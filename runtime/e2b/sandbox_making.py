"""Creation of sandboxes: new ones, from a snapshot, and once for all requests with one idempotency key.

A sandbox gets a user account. The session's answer is checked, because it is hostile.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import re
import time
from collections.abc import Callable, Coroutine
from typing import Any

from holdfast.base import ids
from holdfast.base.text import plain
from holdfast.errors import (
    GuestDisconnected,
    GuestError,
    ImageError,
    InvalidArgument,
    ProtocolError,
    SessionError,
    SnapshotNotFound,
)
from holdfast.runtime.api.controller import Holdfast
from holdfast.runtime.e2b import control_bodies, sandbox_lives
from holdfast.runtime.e2b.connect_wire import SandboxBusy, SandboxNotFound
from holdfast.runtime.e2b.control_bodies import TEMPLATE_IMAGES, NetworkWish, NewSandbox
from holdfast.runtime.e2b.sandbox_lives import ACCOUNT, SandboxFacts
from holdfast.runtime.guest_rpc import wire_fields
from holdfast.runtime.guest_rpc.guest_client import GuestClient
from holdfast.runtime.lifecycle import chosen_image, create
from holdfast.runtime.restore import template_start
from holdfast.runtime.store.lifetime import Lifetime
from holdfast.runtime.store.row_details import SessionDetails
from holdfast.runtime.store.rows import SessionRow, SnapshotRow

LONGEST = 4096


def make_account(client: GuestClient, name: str) -> str:
    """Make an account of the session unless there is one of that name; return its home, an absolute path.

    Raises:
        GuestError: the session cannot make it, or is of an older version.
        ProtocolError: it answers something else.
    """
    home = wire_fields.text(client.request("account_make", name=name), "home")
    if not home.startswith("/") or len(home) > LONGEST or not home.isprintable():
        raise ProtocolError("cannot understand the session: it does not name the account's home folder")
    return home


LONGEST_KEY = 200
DEFAULT_SECONDS = 300.0
"""The life of a copy of a session that has none."""
HOME = f"/home/{ACCOUNT}"
"""Where code runs and shells begin, as clients expect it."""
logger = logging.getLogger("holdfast.serve")


class RequestsDiffer(SessionError):
    """Two different requests have the same idempotency key."""

    code = "requests_differ"


def snapshot_of(hf: Holdfast, template: str) -> SnapshotRow:
    """Return the snapshot that a template refers to by id or name, with or without the tag `default`.

    Raises:
        SandboxNotFound: there is none.
    """
    name = template.removesuffix(":default")
    try:
        if not re.fullmatch(ids.NAME, name):
            raise SnapshotNotFound("")
        return hf.store.snapshot(name)
    except (SnapshotNotFound, InvalidArgument):
        raise SandboxNotFound(
            f"cannot find the template '{plain(template, 80)}': no snapshot has that id or name",
            hint=f"or give one of {', '.join(TEMPLATE_IMAGES)}",
        ) from None


def make(hf: Holdfast, asked: NewSandbox, facts: SandboxFacts, life: Lifetime) -> SessionRow:
    """Make the sandbox that a client asks for.

    Raises:
        SandboxNotFound, InvalidArgument, NotOffered, HoldfastError: it was not made.
    """
    wish = control_bodies.network_wish(asked.allow_internet_access, asked.network)
    row = _started(hf, asked.template_id, wish, facts, life)
    try:
        home = _account(hf, row)
    except BaseException:  # no client hears of it
        hf.remove_session(row.id)
        raise
    own = {"home": home, "javascript": TEMPLATE_IMAGES.get(asked.template_id) == chosen_image.DATA}
    sandbox_lives.change_facts(hf.store, row.id, lambda kept: kept.model_copy(update=own))
    handed_over(hf, row, life.life or 0.0)
    return hf.store.session(row.id)


def _account(hf: Holdfast, row: SessionRow) -> str | None:
    """Give the sandbox the account that clients expect, and return its home; None if it cannot have one."""
    try:
        return make_account(GuestClient(hf.home.run_dir(row.id)), ACCOUNT)
    except GuestDisconnected:
        raise
    except GuestError as error:  # of a snapshot whose files it may not change, or of an older version
        logger.warning("sandbox %s lacks account %s: %s", row.id, ACCOUNT, plain(str(error), 400))
        return None


def details_of(facts: SandboxFacts, life: Lifetime) -> SessionDetails:
    """Return the details with which a sandbox begins."""
    made = sandbox_lives.being_made(life, time.time())
    return SessionDetails().plus(sandbox=facts.model_dump(mode="json"), lifetime=made.as_dict())


def _started(
    hf: Holdfast, template: str, wish: NetworkWish, facts: SandboxFacts, life: Lifetime
) -> SessionRow:
    details = details_of(facts, life)
    if template in TEMPLATE_IMAGES:
        try:
            image = TEMPLATE_IMAGES[template]
            return create.create(hf.context, details=details, image=image, **_options(wish, facts))
        except ImageError as error:
            told = f"cannot make a sandbox of the template {template}: {str(error).removeprefix('cannot ')}"
            raise SandboxNotFound(told, hint=error.hint) from error
    found = snapshot_of(hf, template)
    if wish.network == "domains":
        raise InvalidArgument(
            "cannot let a sandbox from a snapshot reach domains only: its programs run already",
            hint="use a snapshot of a sandbox that was created with these rules",
        )
    rules = None if wish.network in (None, "none") else wish.options
    return template_start.start(hf.context, found.id, details=details, network=wish.network, rules=rules)


def _options(wish: NetworkWish, facts: SandboxFacts) -> dict[str, Any]:
    return {"network": wish.network, **wish.options({}), "env": facts.env, "workdir": HOME}


class OnceMade:
    """Lets requests with the same key share one creation while it is under way."""

    def __init__(self) -> None:
        self._being_made: dict[str, tuple[str | None, asyncio.Task[SessionRow]]] = {}

    async def made(
        self,
        key: str | None,
        asked: NewSandbox,
        facts: SandboxFacts,
        work: Callable[[SandboxFacts], Coroutine[Any, Any, SessionRow]],
    ) -> SessionRow:
        """Return the result of `work`; requests with the same key wait for the first of them.

        Raises:
            InvalidArgument: the key is not valid.
            RequestsDiffer: another request had this key.
        """
        if key is None:
            return await work(facts)
        if not 0 < len(key) <= LONGEST_KEY:
            raise InvalidArgument(
                f"cannot use the idempotency key: it must have 1 to {LONGEST_KEY} characters"
            )
        named = facts.model_copy(update={"key": _digest(key), "asked": _digest(asked.model_dump_json())})
        place = str(named.key)
        if place not in self._being_made:
            task = asyncio.create_task(work(named))
            self._being_made[place] = named.asked, task
            task.add_done_callback(lambda _: self._being_made.pop(place, None))
        other, task = self._being_made[place]
        if other != named.asked:
            raise _differ()
        # A client that disconnects must not cancel the creation that others wait for.
        return await asyncio.shield(task)


def found_or_made(hf: Holdfast, asked: NewSandbox, facts: SandboxFacts, life: Lifetime) -> SessionRow:
    """Return the sandbox that this key has made before, or make it; raises as `make` does.

    Raises:
        RequestsDiffer: another request had this key.
        SandboxBusy: another server is making it.
    """
    for row in hf.store.sessions() if facts.key is not None else ():
        kept = SandboxFacts.of(row)
        if kept is None or kept.key != facts.key or sandbox_lives.ended(row) or row.state == "dead":
            continue
        if kept.asked != facts.asked:
            raise _differ()
        if row.state == "creating":
            raise SandboxBusy(
                "cannot make the sandbox: another server is making it", hint="try again in a moment"
            )
        return row
    return make(hf, asked, facts, life)


def wider(asked: NewSandbox) -> tuple[str, ...]:
    """Return the scopes that a request for a sandbox takes for access beyond the defaults.  Pure."""
    network = asked.network
    opens = network is not None and bool(network.allow_out)
    # A snapshot can be of a closed session; of an image it is the default.
    opens |= asked.allow_internet_access is True and asked.template_id not in TEMPLATE_IMAGES
    public = network is not None and network.allow_public_traffic is True
    return (*(["network:change"] if opens else []), *(["ports:preview"] if public else []))


def copied(facts: SandboxFacts) -> SandboxFacts:
    """Return the facts of a copy of a sandbox.  Pure."""
    return facts.model_copy(update={"key": None, "asked": None})


def copied_life(parent: Lifetime, seconds: float | None, now: float) -> Lifetime:
    """Return the lifetime of a copy of a sandbox: it lives for `seconds`, or as long as its parent.  Pure."""
    if seconds is None:
        seconds = parent.left(now)
    if seconds is None:
        seconds = DEFAULT_SECONDS if parent.life is None else parent.life
    return Lifetime(life=seconds, then=parent.then, keeps_memory=parent.keeps_memory, wakes=parent.wakes)


def handed_over(hf: Holdfast, row: SessionRow, seconds: float) -> None:
    """Start the life of a sandbox once it is ready, however long its creation took."""
    sandbox_lives.change_life(hf.store, row.id, lambda kept: kept.given(seconds, time.time()))


def _differ() -> RequestsDiffer:
    return RequestsDiffer(
        "cannot make a sandbox: a different request had the same key", hint="use a new key for each request"
    )


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
