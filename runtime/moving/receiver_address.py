"""Where a session moves to, as people write it, and the command that starts the receiver there.  Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from holdfast.base import ssh_command
from holdfast.base.text import plain
from holdfast.errors import InvalidArgument

_FORM = re.compile(r"(?:ssh://)?((?:[\w.+-]+@)?(?:[\w.-]+|\[[0-9A-Fa-f:.]+\]))(?::(\d{1,5}))?/?", re.ASCII)


@dataclass(frozen=True, slots=True)
class ReceiverAddress:
    """A machine that ssh reaches, and how `holdfast` is called there."""

    host: str
    port: int | None = None
    remote_command: str = "holdfast"

    @classmethod
    def parse(cls, text: str, remote_command: str = "holdfast") -> ReceiverAddress:
        """Parse `[USER@]HOST`, or `ssh://[USER@]HOST[:PORT]`.

        Raises:
            InvalidArgument: it has another form, or the command is empty.
        """
        found = _FORM.fullmatch(text)
        if found is None or text.startswith("-") or found[1].startswith("-"):
            raise InvalidArgument(
                f"cannot move to '{plain(text, 100)}': it is not a machine",
                hint="[USER@]HOST as ssh knows it, or ssh://[USER@]HOST:PORT",
            )
        port = int(found[2]) if found[2] else None
        if port is not None and not (text.startswith("ssh://") and 0 < port < 65536):
            raise InvalidArgument(
                f"cannot move to '{plain(text, 100)}': it has a port that ssh would not understand",
                hint="write ssh://[USER@]HOST:PORT",
            )
        if not remote_command.strip():
            raise InvalidArgument("cannot move: the command to run there is empty")
        host = found[1].replace("[", "").replace("]", "")
        return cls(host, port, remote_command)

    def command(self, environment: Mapping[str, str]) -> list[str]:
        """Return the command that starts the receiver: ssh with `-p PORT` if there is one, the host, and a
        shell command.

        Raises:
            InvalidArgument: HOLDFAST_SSH is not a command.
        """
        ssh = ssh_command.chosen(environment) or ["ssh", *ssh_command.ALIVE]
        port = ["-p", str(self.port)] if self.port is not None else []
        return [*ssh, *port, self.host, f"{self.remote_command} receive"]
