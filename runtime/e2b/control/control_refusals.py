"""Refusals of the control plane's paths that sessions have no counterpart for.  Pure."""

from __future__ import annotations

import re

from holdfast.runtime.e2b.e2b_errors import NotOffered

_REASONS = (
    (
        "templates",
        "cannot build or list templates: a template is a snapshot here",
        "prepare a sandbox, take a snapshot of it, and make sandboxes from that",
    ),
    ("volumes", "cannot keep volumes: there are none", "fork or snapshot a sandbox that has the files"),
    (
        "secrets",
        "cannot store secrets over this wire",
        "`holdfast new --secret` makes a session that uses some",
    ),
    ("teams|nodes", "cannot list teams or nodes: this server has one user and one machine", ""),
    (
        "sandboxes/[^/]+/logs",
        "cannot return the log of a sandbox here",
        "`holdfast journal` and `holdfast events` report what happened in it",
    ),
)


def refusal(path: str) -> NotOffered:
    """Return the reason why a path is refused."""
    rest = re.sub(r"^/(v[23]/)?", "", path)
    for pattern, why, hint in _REASONS:
        if re.match(rf"({pattern})(/|$)", rest):
            return NotOffered(why, hint=hint)
    return NotOffered("cannot answer: sandboxes do not offer this path and method")
