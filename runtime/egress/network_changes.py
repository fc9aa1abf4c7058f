"""Reports and changes of a session's reach: while it runs, or for when it resumes.

A change is all or nothing: the kernel replaces the rules in one step, they are read back, and only then the
session's options are changed. A failure before that restores the old rules, in another process if need be.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from holdfast.base.locks import exclusive
from holdfast.base.value_classes import as_table
from holdfast.errors import InvalidArgument, NetworkNotClosed, SessionBusy
from holdfast.runtime.egress import attempt_log, home_network, host_network, session_policy
from holdfast.runtime.egress.attempt_log import Refusal
from holdfast.runtime.egress.close_network import Closing
from holdfast.runtime.journal import host_events
from holdfast.runtime.operations.operation import carry_out, is_orphan, undoes
from holdfast.runtime.sessions import network_exceptions
from holdfast.runtime.sessions.network_exceptions import Allowed
from holdfast.runtime.sessions.session_lock import turn
from holdfast.runtime.sessions.session_options import SessionOptions
from holdfast.runtime.store.rows import OperationKind

if TYPE_CHECKING:
    from holdfast.runtime.operations.context import Context
    from holdfast.runtime.store.rows import OperationRow, OperationState, SessionRow
    from holdfast.snapshots.checkpointer.egress.netrules import Address

OPTIONS = ("network", "allow", "deny", "domains")
"""The options of a session that concern the network."""


@dataclass(frozen=True, slots=True)
class Reach:
    """The reach of a session.

    Attributes:
        network: `internet`, `none`, `open` or `domains`.
        allow: exceptions of the session, HOST:PORT; without a port, exempt from `deny`.
        deny: addresses and networks that it does not reach.
        domains: names it reaches through the gateway.
        secrets: variables for which the gateway inserts values, and the hosts that receive them.
        home_allow: exceptions of all sessions of the home.
        resolvers: the addresses that answer names.
        refused: destinations that were recently refused, the latest first.
        refused_more: the record is full; others may have been refused as well.
    """

    network: str
    allow: tuple[str, ...]
    home_allow: tuple[str, ...]
    resolvers: tuple[str, ...]
    refused: tuple[Refusal, ...]
    refused_more: bool = False
    domains: tuple[str, ...] = ()
    secrets: tuple[tuple[str, tuple[str, ...]], ...] = ()
    deny: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """Return the fields for programs."""
        return {**as_table(self), "secrets": {name: list(hosts) for name, hosts in self.secrets}}


def reach(context: Context, session: SessionRow) -> Reach:
    """Return the reach of a session. For one that does not run: its future reach, and past refusals.

    Raises:
        StoreError: `network.json` cannot be used.
        HoldfastError: the rules of a running session cannot be read.
    """
    options = SessionOptions.parse(**session.options)
    refused = tuple(attempt_log.read(context, session))
    more = attempt_log.is_full(refused, time.time())
    if options.network == "none":
        return Reach(options.network, (), (), (), refused, more, deny=options.deny)
    resolvers = tuple(map(str, _resolvers(options)))
    known = tuple(map(str, home_network.read(context.home).every))
    secrets = tuple((one.name, tuple(map(str, one.hosts))) for one in options.secrets)
    return Reach(
        options.network,
        options.allow,
        known,
        resolvers,
        refused,
        more,
        options.domains,
        secrets,
        options.deny,
    )


def _resolvers(options: SessionOptions) -> list[Address]:
    if options.network == "domains":
        return []
    machine, wishes = host_network.look(), host_network.Wishes.of(options.allow, options.deny)
    denied = host_network.denied_resolvers(machine, wishes)
    return [one for one in machine.resolvers if one not in denied]


def changed(
    options: Mapping[str, Any],
    *,
    network: str | None = None,
    allow: Iterable[str] = (),
    disallow: Iterable[str] = (),
    deny: Iterable[str] = (),
    no_deny: Iterable[str] = (),
    domains: Iterable[str] = (),
    no_domains: Iterable[str] = (),
) -> dict[str, Any]:
    """Return a session's options with another network, more or fewer exceptions, denials and domains. Pure.

    Raises:
        InvalidArgument: the combination is not possible, or an entry to remove does not exist.
    """
    now = SessionOptions.parse(**options)
    more = [str(Allowed.parse(text)) for text in allow]
    less = [str(Allowed.parse(text)) for text in disallow]
    for item in less:
        if item in more:
            raise InvalidArgument(f"cannot both allow and disallow {item}", hint="leave one out")
        if item not in now.allow:
            known = ", ".join(now.allow) or "none"
            raise InvalidArgument(
                f"cannot disallow {item}: it is not an exception of this session",
                hint=f"its exceptions: {known}; the rules of all sessions are in network.json of the home",
            )
    chosen: dict[str, Any] = {
        "network": network or now.network,
        "domains": _domains(now, domains, no_domains),
        "deny": _denied(now, deny, no_deny),
    }
    if network == "none":
        chosen |= {"allow": more, "domains": [], "secrets": []}
    else:
        kept = [item for item in now.allow if item not in less]
        chosen["allow"] = list(dict.fromkeys((*kept, *more)))
        _check_gateway(now, chosen["network"])
    return SessionOptions.parse(**{**options, **chosen}).model_dump(mode="json")


def _denied(now: SessionOptions, more: Iterable[str], less: Iterable[str]) -> list[str]:
    added, lifted = network_exceptions.denied_texts(more), network_exceptions.denied_texts(less)
    for item in lifted:
        if item in added or item not in now.deny:
            known = ", ".join(now.deny) or "nothing"
            raise InvalidArgument(
                f"cannot lift the denial of {item}: this session does not have it",
                hint=f"the session is denied: {known}",
            )
    return list(dict.fromkeys([*(item for item in now.deny if item not in lifted), *added]))


def _domains(now: SessionOptions, more: Iterable[str], less: Iterable[str]) -> list[str]:
    added = [str(session_policy.parse_domain(text)) for text in more]
    taken = [str(session_policy.parse_domain(text)) for text in less]
    if (added or taken) and now.network != "domains":
        raise InvalidArgument(
            "cannot change the domains of this session: it was not made with --network domains",
            hint="`holdfast new --network domains --domain NAME`",
        )
    for item in taken:
        if item not in now.domains or item in added:
            known = ", ".join(now.domains) or "none"
            raise InvalidArgument(f"cannot remove domain {item}", hint=f"the session's domains: {known}")
    return list(dict.fromkeys([*(item for item in now.domains if item not in taken), *added]))


def _check_gateway(now: SessionOptions, network: str) -> None:
    """Refuse a change of the gateway's use: programs learn of the gateway only when a session is made."""
    if (network == "domains") != (now.network == "domains"):
        raise InvalidArgument(
            f"cannot change the network from {now.network} to {network}: domain filtering "
            "needs a proxy that is set up when the session is created",
            hint=f"make another session: `holdfast new --network {network}`",
        )


def carried(session: Mapping[str, Any], snapshot: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of a snapshot with the network of the session that is rewound to it. Pure.

    Destinations that a person closed since then stay closed. Only a snapshot of another session can use
    domains where this one does not: it reaches no more than that.
    """
    if snapshot.get("network") == "domains" != session.get("network"):
        return dict(snapshot)
    return {**snapshot, **{key: session[key] for key in OPTIONS if key in session}}


def change(
    context: Context,
    session: SessionRow,
    *,
    network: str | None = None,
    allow: Iterable[str] = (),
    disallow: Iterable[str] = (),
    deny: Iterable[str] = (),
    no_deny: Iterable[str] = (),
    domains: Iterable[str] = (),
    no_domains: Iterable[str] = (),
) -> SessionRow:
    """Change the reach of a session: immediately if it runs, otherwise when it resumes. Return its row.

    The rules are rebuilt in any case: names stand for their present addresses.

    Raises:
        InvalidArgument: the change is not possible; nothing was changed.
        NetworkNotClosed, StoreError, EngineError: it failed; rules and options are the old ones.
    """
    with turn(context, session, "change the network of", usable=False) as row:
        if row.state == "creating":
            raise SessionBusy(f"cannot change the network of session {row.name}: it is being made")
        _check_kinds(row, network)
        options = changed(
            row.options,
            network=network,
            allow=allow,
            disallow=disallow,
            deny=deny,
            no_deny=no_deny,
            domains=domains,
            no_domains=no_domains,
        )
        more, less = _difference(row.options, options, "allow", "domains")
        closed, lifted = _difference(row.options, options, "deny")
        closing = Closing(context.engine, context.home, context.progress)
        checked = [item for item in more if item in options["allow"]]
        closing.check_names(SessionOptions.parse(network=options["network"], allow=checked))
        with carry_out(context, OperationKind.NETWORK, session_id=row.id) as operation:
            _apply(context, row, options)
            context.store.operations.complete(operation.id, sessions={row.id: {"options": options}})
    host_events.note(
        context,
        row.id,
        "network",
        network=options["network"],
        allowed=", ".join(more) or None,
        disallowed=", ".join(less) or None,
        denied=", ".join(closed) or None,
        no_longer_denied=", ".join(lifted) or None,
    )
    return context.store.session(row.id)


def _difference(
    before: Mapping[str, Any], after: Mapping[str, Any], *names: str
) -> tuple[list[str], list[str]]:
    """Return the added and the removed items of these options."""
    old, new = ([item for name in names for item in of.get(name, [])] for of in (before, after))
    return [item for item in new if item not in old], [item for item in old if item not in new]


@undoes(OperationKind.NETWORK)
def undo_change(context: Context, operation: OperationRow) -> OperationState | None:
    """Restore the rules that belong to the options of the session.

    Raises:
        SessionBusy: another process holds the session.
        EngineError, StoreError: the same as for `change`.
    """
    session_id = operation.session_id or ""
    # The process that began the change holds the session's lock, unless it is gone.
    orphaned = is_orphan(operation)
    lock = exclusive(context.home.locks, session_id, "change its network") if orphaned else nullcontext()
    with lock:
        row = context.store.find_session(session_id)
        try:
            if row is not None:
                _apply(context, row, row.options)
        except NetworkNotClosed as error:
            context.progress(f"the network of session {session_id} possibly has the wrong rules: {error}")
            return None
    return "failed"


def _apply(context: Context, row: SessionRow, options: Mapping[str, Any]) -> None:
    """Apply the rules of these options, if the session's container runs."""
    if row.state != "running" or row.container_id is None:
        return
    state = context.engine.inspect(row.container_id)
    if state is None or not state.running:
        return
    closing = Closing(context.engine, context.home, context.progress)
    refused = closing.change(SessionOptions.parse(**options), state)
    attempt_log.keep(context, row, state.id, refused, emptied=True)


def _check_kinds(row: SessionRow, network: str | None) -> None:
    now = row.options.get("network", "internet")
    if now == "none":
        raise InvalidArgument(
            f"cannot change the network of session {row.name}: it was created without one and "
            "lacks an interface",
            hint="take a snapshot and `holdfast restore SNAPSHOT --network internet`",
        )
    if network == "none":
        raise InvalidArgument(
            f"cannot remove the network of session {row.name}: it keeps its interface as long as it exists",
            hint="take a snapshot and `holdfast restore SNAPSHOT --network none`",
        )
