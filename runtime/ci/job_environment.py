"""The variables of a job, and the way secret ones enter a session without being written to disk anywhere.

Variables that are not secret are options of the session. Secrets there would be in the manifest and in the
engine's own records. So the shell reads them from a file in memory that is removed before the command runs,
and forgets them right after it, because the state of a shell at its prompt is recorded in the session.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from holdfast.base.text import plain
from holdfast.errors import InvalidArgument, SessionError

if TYPE_CHECKING:
    from holdfast.engine.engine import Engine
    from holdfast.runtime.ci.redaction import Redaction

# No one is there to leave a pager or to answer dpkg; a question of git is reported as one.
DEFAULTS = {"CI": "true", "PAGER": "cat", "GIT_PAGER": "cat", "DEBIAN_FRONTEND": "noninteractive"}
COLORS = ("NO_COLOR", "FORCE_COLOR", "CLICOLOR", "CLICOLOR_FORCE", "PY_COLORS")
"""Taken from this host if set there: the command sees a terminal, but the log of the job can be a file."""
PLUGIN, PLUGIN_OPTION = "/opt/holdfast/python", "--holdfast"
PLACE = "/dev/shm/.holdfast-job"  # noqa: S108  in the session, in memory
LARGEST = 120_000
"""Bytes: the kernel takes no longer string (MAX_ARG_STRLEN is 128 KiB)."""
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def chosen(wanted: Sequence[str], host: Mapping[str, str]) -> dict[str, str]:
    """Return the requested variables: NAME and `NAME*` as on this host, if they exist, and NAME=VALUE.

    Those about colors come unasked.

    Raises:
        InvalidArgument: a request is malformed.
    """
    found = DEFAULTS | {name: host[name] for name in COLORS if name in host}
    for each in wanted:
        name, equals, value = each.partition("=")
        if equals and _NAME.fullmatch(name):
            found[name] = value
        elif not equals and any(c in name for c in "*?["):
            found |= {
                key: host[key] for key in sorted(host) if fnmatchcase(key, name) and _NAME.fullmatch(key)
            }
        elif not equals and _NAME.fullmatch(name):
            found |= {name: host[name]} if name in host else {}
        else:
            raise InvalidArgument(
                f"cannot pass on '{plain(name, 60)}': it is not a valid variable name",
                hint="--env NAME, --env 'GITHUB_*' or --env NAME=VALUE",
            )
    return found


def with_plugin(variables: Mapping[str, str], command: str) -> dict[str, str]:
    """Make the pytest plugin importable if the command uses it: not every Python sees the system's
    packages.
    """
    if PLUGIN_OPTION not in f"{command} {variables.get('PYTEST_ADDOPTS', '')}".split():
        return dict(variables)
    path = ":".join(filter(None, (variables.get("PYTHONPATH"), PLUGIN)))
    return {**variables, "PYTHONPATH": path}


def split(variables: Mapping[str, str], redaction: Redaction) -> tuple[dict[str, str], dict[str, str]]:
    """Return the variables that can be recorded, and the others."""
    hidden = {name: value for name, value in variables.items() if redaction.secret(name)}
    return {name: value for name, value in variables.items() if name not in hidden}, hidden


def script(variables: Mapping[str, str]) -> str:
    """Return the text with which a shell sets them.

    Raises:
        InvalidArgument: it would be too long.
    """
    text = "".join(f"export {name}={shlex.quote(value)}\n" for name, value in sorted(variables.items()))
    if len(text.encode("utf-8", "surrogateescape")) > LARGEST or "\0" in text:
        raise InvalidArgument(
            f"cannot pass on variables: secret ones have more than {LARGEST} bytes",
            hint="put large ones into a file of the checkout",
        )
    return text


def around(command: str, names: Iterable[str]) -> str:
    """Return a command that takes the variables from PLACE, and removes them and the file."""
    kept, gone = "holdfast_status", " ".join(sorted(names))
    before, after = f". {PLACE}; rm -f {PLACE}", f"{kept}=$?; unset {gone}; (exit ${kept})"
    return f"{{ {before}; eval {shlex.quote(command)}; {after}; }}"


def hand_over(engine: Engine, container: str, variables: Mapping[str, str], user: str) -> None:
    """Leave variables in PLACE of a session, for the command that `around` returns.

    Args:
        user: the shell's user, as UID:GID.

    Raises:
        SessionError: it cannot be written.
    """
    command = ["/bin/sh", "-c", 'umask 077; printf %s "$TEXT" > "$1"; chown "$2" "$1"', "sh", PLACE, user]
    exit_code, output = engine.run_inside(
        container, command, {"TEXT": script(variables)}, "pass on variables"
    )
    if exit_code != 0:
        said = plain(output.decode("utf-8", "replace"), 200)
        raise SessionError(
            f"cannot pass on variables: {said}", hint="the session's image needs /bin/sh and chown"
        )
