"""The parameters of frequent verbs, as Typer has them: what a command line needs to be read without it.

Their definition is the verb's function; a test compares, and prints what belongs here. Pure data.
"""

from __future__ import annotations

FLAG, TEXT, TEXTS, NUMBER = "flag", "text", "texts", "number"

ARGUMENTS = {
    "ls": (),
    "exec": ("session", "command+"),
    "wait": ("session", "command?"),
    "cell": ("session", "code"),
    "send": ("session", "text*"),
    "screen": ("session",),
    "snapshot": ("session",),
}
"""Names in their order; `?` marks one that may be left out, `*` any number, `+` at least one."""

OPTIONS = {
    "ls": {"--label": ("label", TEXTS), "--json": ("json", FLAG)},
    "exec": {
        "--timeout": ("timeout", NUMBER),
        "--patience": ("patience", NUMBER),
        "--wait": ("wait", FLAG),
        "--lease-wait": ("lease_wait", NUMBER),
        "--busy-wait": ("busy_wait", NUMBER),
        "--detach": ("detach", FLAG),
        "-d": ("detach", FLAG),
        "--name": ("name", TEXT),
        "--check": ("check", FLAG),
        "--key": ("key", TEXT),
        "--reason": ("reason", TEXT),
        "--shell": ("shell", TEXT),
        "--raw": ("raw", FLAG),
        "--json": ("json", FLAG),
    },
    "wait": {
        "--patience": ("patience", NUMBER),
        "--wait": ("through", FLAG),
        "--shell": ("shell", TEXT),
        "--raw": ("raw", FLAG),
        "--json": ("json", FLAG),
    },
    "cell": {
        "--timeout": ("timeout", NUMBER),
        "--busy-wait": ("busy_wait", NUMBER),
        "--key": ("key", TEXT),
        "--reason": ("reason", TEXT),
        "--kernel": ("kernel", TEXT),
        "--save": ("save", TEXT),
        "--json": ("json", FLAG),
    },
    "send": {
        "--key": ("key", TEXTS),
        "-k": ("key", TEXTS),
        "--enter": ("enter", FLAG),
        "-e": ("enter", FLAG),
        "--wait": ("through", FLAG),
        "--patience": ("patience", NUMBER),
        "--job": ("job", TEXT),
        "--shell": ("shell", TEXT),
        "--raw": ("raw", FLAG),
        "--json": ("json", FLAG),
    },
    "screen": {"--shell": ("shell", TEXT), "--json": ("json", FLAG)},
    "snapshot": {
        "--label": ("label", TEXT),
        "-l": ("label", TEXT),
        "--kind": ("kind", TEXT),
        "--reason": ("reason", TEXT),
        "--check": ("check", FLAG),
        "--all": ("all_", FLAG),
        "--force-drop": ("force_drop", TEXTS),
        "--json": ("json", FLAG),
    },
}
"""The parameter and the kind of value of each option."""
