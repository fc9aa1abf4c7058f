"""Scopes and roles: the rights of a caller of a server, in parts. Pure.

A scope is THING:ACTION. A role is a set of scopes with a name. Knows neither keys nor requests; which request
needs which scope is in `runtime/serve/key_rules.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from holdfast.base.text import plain
from holdfast.errors import InvalidArgument

SCOPES: Mapping[str, str] = {
    "server:read": "see the server's figures",
    "sessions:read": "see sessions, their processes and their past",
    "sessions:exec": "run commands, cells and programs; type, answer and send signals",
    "sessions:create": "start sessions; restore, fork and repeat snapshots",
    "sessions:change": "suspend, resume and rewind; change lives, labels and policies",
    "sessions:remove": "end sessions and delete them",
    "network:change": "choose or change what a session can reach",
    "secrets:use": "give a session secrets of the home",
    "host:mounts": "give a session folders of the machine: whatever the server's own user can read",
    "lease:take": "take, return and hand over shells",
    "snapshots:read": "see and compare snapshots",
    "snapshots:create": "capture sessions; pin snapshots",
    "snapshots:remove": "delete snapshots",
    "files:read": "read files of sessions",
    "files:write": "write, move and delete files of sessions",
    "ports:preview": "make links to ports, and revoke them",
    "sessions:share": "share sessions by links, with rights that the key has itself",
    "tasks:write": "keep the record of a task",
    "notices:write": "be notified of sessions, by push or by requests of the server to a URL",
    "artifacts:remove": "delete kept artifacts",
    "keys:read": "see access keys, without their texts",
    "keys:change": "make access keys with rights that the key has itself, and revoke such keys",
    "audit:read": "see the audit trail",
}
"""All scopes, and their meaning."""
_VIEWER = ("server:read", "sessions:read", "snapshots:read", "files:read")
_MEMBER = (
    *_VIEWER,
    "sessions:exec",
    "sessions:create",
    "sessions:change",
    "lease:take",
    "snapshots:create",
    "files:write",
    "ports:preview",
    "sessions:share",
    "tasks:write",
    "notices:write",
)
_OF_ADMINS = ("host:mounts", "keys:read", "keys:change", "audit:read")
ROLES: Mapping[str, tuple[str, ...]] = {
    "viewer": _VIEWER,
    "member": _MEMBER,
    "maintainer": tuple(each for each in SCOPES if each not in _OF_ADMINS),
    "admin": tuple(SCOPES),
}
"""Each has the scopes of its predecessor, and more."""


def expanded(texts: Iterable[str]) -> frozenset[str]:
    """Return the scopes that texts stand for: a scope, all scopes of a kind (`files:*`), or a role.

    Raises:
        InvalidArgument: neither a scope nor a role has that name.
    """
    found: set[str] = set()
    for text in texts:
        thing, _, action = text.partition(":")
        if text in SCOPES:
            found.add(text)
        elif text in ROLES:
            found.update(ROLES[text])
        elif action == "*" and (of := [each for each in SCOPES if each.startswith(f"{thing}:")]):
            found.update(of)
        else:
            raise InvalidArgument(
                f"cannot give '{plain(text, 40)}': neither a role nor a scope has that name",
                hint=f"roles are {', '.join(ROLES)}; scopes are {', '.join(SCOPES)}",
            )
    return frozenset(found)


def shown(scopes: frozenset[str]) -> str:
    """Return scopes for people: the role that has exactly these, or their names."""
    return next(
        (name for name, of in ROLES.items() if frozenset(of) == scopes),
        ", ".join(each for each in SCOPES if each in scopes) or "nothing",
    )
