"""A person's terminal joined to a session's terminal, wherever the person's is.

Input goes through unchanged, except for the key that detaches and the keys of commands.  Output is
filtered, and programs that query the terminal are answered here, so that no answer is ever taken for typed
input.  A status line is painted below the session's rows, here alone.  A snapshot cuts the connection for a
moment: it is made again, output continues at its offset, and input that was not taken is sent again.
"""

from __future__ import annotations

import re
import secrets
import select
import time
from collections.abc import Collection, Sequence
from typing import Any, Protocol

from holdfast.base.text import plain
from holdfast.errors import GuestDisconnected, GuestError
from holdfast.runtime.attachment import command_keys, status_line
from holdfast.runtime.attachment.command_keys import CommandKeys
from holdfast.runtime.attachment.mirror_screen import MirrorScreen
from holdfast.runtime.attachment.screen_state import shown, view
from holdfast.runtime.guest.wire import protocol
from holdfast.runtime.guest.wire.protocol import Frame
from holdfast.runtime.guest_rpc import wire_fields
from holdfast.runtime.guest_rpc.guest_client import Connection, GuestClient, raise_error
from holdfast.runtime.guest_rpc.patience import Patience
from holdfast.runtime.guest_rpc.reconnect import Reconnection
from holdfast.runtime.terminal import allowed_controls, key_names

DETACH_KEY = "C-]"
# Bytes that may be sent to the supervisor and not be typed yet: less than a socket holds, so that
# sending never waits.
WINDOW = 64 << 10
# Bytes that may be typed ahead of a program that does not read.
MOST_UNSENT = 4 << 20
CLOSE_SECONDS = 2.0
SEND_SECONDS = 10.0
# Seconds between two looks at the people here, while nothing happens, and after output.
STATUS_SECONDS, SETTLED_SECONDS = 5.0, 1.0
_FRAMES = {command_keys.TAKE: "take", command_keys.GIVE: "give_back"}


_SWITCHED = "switched to another shell"
_MOUSE = re.compile(rb"\x1b\[<[0-9]+;[0-9]+;([0-9]+)[Mm]|\x1b\[M[^\x1b][^\x1b]([^\x1b])", re.DOTALL)


class PersonTerminal(Protocol):
    """The terminal of the person: of this process, or at the other end of a server."""

    encoding: str

    def descriptors(self) -> Sequence[int]:
        """Return the descriptors that become readable when there is input."""

    def typed(self, ready: Collection[int]) -> bytes | None:
        """Return the typed input, empty once it has hung up; None if there is none."""

    def resized(self, ready: Collection[int]) -> bool:
        """Return whether its size has changed."""

    def size(self) -> tuple[int, int]:
        """Return its rows and columns."""

    def write(self, data: bytes) -> None:
        """Show output."""


class Attachment:
    """One terminal, attached to one shell until it is detached or either side ends."""

    def __init__(
        self,
        client: GuestClient,
        reconnection: Reconnection,
        person: PersonTerminal,
        *,
        shell: str,
        detach_key: str = DETACH_KEY,
        read_only: bool = False,
        take: bool = False,
        unfiltered: bool = False,
        status: bool = False,
        name: str = "",
        patience: Patience | None = None,
    ) -> None:
        self._client = client
        self._reconnection = reconnection
        self._person = person
        self._shell = shell
        self._keys, self._detach_key = CommandKeys(key_names.key(detach_key)), plain(detach_key, 20)
        self._read_only = read_only
        self._take = take
        self._patience = patience or Patience()
        self._token = secrets.token_hex(8)
        self._mirror = MirrorScreen(
            person.write,
            lambda: view(client, self._shell),
            encoding=person.encoding,
            unfiltered=unfiltered,
            status=status,
        )
        self._name = name
        self._looked_at, self._look_at = 0.0, 0.0
        self._answers = not unfiltered
        self._takes = False  # by keys
        self._standing: tuple[bool, str] | None = None
        self._session_size = (0, 0)
        self._taken = 0  # bytes typed here that the shell has
        self._sent = 0  # bytes sent over this connection, or taken before it
        self._unsent = bytearray()  # input after `_taken`
        self._refused = False

    def run(self) -> str:
        """Pass bytes until the person detaches (`detached`) or the shell is closed (its reason).

        It is `left` once the patience is ended.

        Raises:
            SessionError: the session ended.
        """
        self._reconnection.again = self._rewound
        try:
            while (reason := self._reconnection.run(self._follow)) == _SWITCHED:
                pass
            return reason
        finally:
            self._mirror.close()

    def _follow(self) -> str:
        if self._patience.ended:
            return "left"
        rows, cols = self._mirror.room(self._person.size())
        args: dict[str, Any] = {"shell": self._shell, "rows": rows, "cols": cols, "token": self._token}
        if self._mirror.next is not None:
            args["offset"] = self._mirror.next
        with self._client.open("attach", view=self._read_only, take=self._take, **args) as connection:
            self._patience.hold(connection)
            try:
                return self._joined(connection)
            except GuestDisconnected:
                if self._patience.ended:
                    return "left"
                raise

    def _joined(self, connection: Connection) -> str:
        # For sending: input is read when it arrives. A peer that does not read must not block us.
        connection.socket.settimeout(SEND_SECONDS)
        poll = select.poll()  # select(2) ends at descriptor 1023
        for descriptor in (connection.socket.fileno(), *self._person.descriptors()):
            poll.register(descriptor, select.POLLIN)
        while True:
            status = max(0.0, self._look_at - time.monotonic()) if self._mirror.has_status else None
            due = (self._mirror.patience(), connection.silence.left(), status)
            waits = [each for each in due if each is not None]
            ready = {each for each, _ in poll.poll(min(waits) * 1000 if waits else None)}
            self._mirror.tick()
            connection.silence.look()
            if self._person.resized(ready):
                self._resize(connection)
            if reason := self._typed(self._person.typed(ready), connection):
                self._leave(connection)
                if reason == _SWITCHED:
                    self._start_over()
                return reason
            if connection.socket.fileno() in ready and (reason := self._came(connection)):
                return reason
            self._send(connection)
            self._answer(connection)
            if self._mirror.has_status and time.monotonic() >= self._look_at:
                self._renew_status()

    def _rewound(self) -> None:
        self._start_over()
        self._mirror.notice("the session was rewound")

    def _start_over(self) -> None:
        """Start over: the terminal shows something else, and pending input is lost."""
        self._mirror.next = None
        self._unsent.clear()
        self._taken = self._sent = 0
        self._token = secrets.token_hex(8)
        self._session_size = (0, 0)
        self._standing = None

    def _typed(self, data: bytes | None, connection: Connection) -> str:
        """Process typed input; return why that ends this connection: a key, or the end of input."""
        if data is None:
            return ""
        for command, typed in self._keys.feed(data):
            if command == command_keys.LEAVE:
                return "detached"
            if command in (command_keys.NEXT, command_keys.BEFORE):
                if self._switched(1 if command == command_keys.NEXT else -1):
                    return _SWITCHED
            elif command != command_keys.PASS:
                self._do(command, connection)
            elif self._read_only:
                self._explain()
            elif len(self._unsent) + len(typed) > MOST_UNSENT:
                self._mirror.notice("not passed on: the program does not read input")
            else:
                self._unsent += self._within(typed)
        return "" if data else "detached"

    def _within(self, typed: bytes) -> bytes:
        """Return typed input without reports of a mouse in the status line: the session lacks that row."""
        rows = self._mirror.room()[0]
        if rows == self._person.size()[0] or b"\x1b[" not in typed:
            return typed

        def kept(found: re.Match[bytes]) -> bytes:
            row = int(found[1]) if found[1] else found[2][0] - 32
            return b"" if row > rows else found[0]

        return _MOUSE.sub(kept, typed)

    def _switched(self, step: int) -> bool:
        """Choose the next or previous shell of the session; False if it has only one."""
        from holdfast.runtime.guest_rpc.shell_report import Shells  # few attachments need it

        names = [one.name for one in Shells.of(self._client.request("hello").head).shells]
        if len(names) < 2:
            self._mirror.notice(
                f"the session has one shell; `holdfast shells {self._name} open NAME` opens another"
            )
            return False
        at = names.index(self._shell) if self._shell in names else 0
        self._shell = names[(at + step) % len(names)]
        return True

    def _do(self, command: str, connection: Connection) -> None:
        """Carry out a person's key command."""
        if command == command_keys.HELP:
            self._mirror.notice(command_keys.KEYS)
        elif command == command_keys.STATUS:
            if self._mirror.switch_status():
                self._look_at = 0.0
                self._resize(connection)
            else:
                self._mirror.notice("a status line cannot be kept with --raw")
        elif command == command_keys.LOOK:
            try:
                self._mirror.notice(self._who_is_here())
            except GuestError as error:
                self._mirror.notice(str(error))
        elif self._read_only:
            self._explain()
        elif not self._takes:
            self._mirror.notice("an older version of Holdfast made the session, and it cannot do that")
        elif self._standing is not None:
            connection.send(protocol.request(_FRAMES[command], {}))

    def _who_is_here(self) -> str:
        """Return the shell's holder, the attached terminals and the wait for input, as the shell reports
        them."""
        from holdfast.runtime.guest_rpc import shell_report

        lease = shell_report.lease(self._client.request("lease", shell=self._shell).head)
        waits = status_line.waiting(shell_report.shell_info(self._client, self._shell))
        return "; ".join(each for each in (*status_line.people(lease), waits) if each)

    def _renew_status(self) -> None:
        """Show the people here, the holder and the waits for input in the status line."""
        from holdfast.runtime.guest_rpc import shell_report

        self._looked_at = time.monotonic()
        self._look_at = self._looked_at + STATUS_SECONDS
        lease = shell_report.lease(self._client.request("lease", shell=self._shell).head)
        shells = shell_report.Shells.of(self._client.request("hello").head).shells
        self._mirror.show_status(status_line.status(self._name, self._shell, shells, lease))

    def _look_soon(self) -> None:
        """Look once output has settled, though at most once a second."""
        soon = max(self._looked_at, time.monotonic()) + SETTLED_SECONDS
        self._look_at = min(self._look_at, soon)

    def _send(self, connection: Connection) -> None:
        """Send the typed input, as far as there is room."""
        if self._standing is None:
            return
        begin = self._sent - self._taken
        part = bytes(self._unsent[begin:WINDOW])
        if part:
            self._sent += len(part)
            connection.send(protocol.request("input", {"at": self._sent - len(part)}), part)

    def _answer(self, connection: Connection) -> None:
        """Answer the queries of programs, if this terminal can write."""
        asked, self._mirror.asked = self._mirror.asked, []
        if not (asked and self._answers and self._standing and self._standing[0]):
            return
        place: tuple[int, int] | None = None

        def cursor() -> tuple[int, int]:
            nonlocal place
            if place is None:  # the program waits for it, so it has not moved since
                place = shown(view(self._client, self._shell).terminal).cursor
            return place

        for function in asked:
            data = allowed_controls.answer(function, cursor)
            connection.send(protocol.request("answer", {}), data)

    def _leave(self, connection: Connection) -> None:
        """Announce the end, and wait until earlier input has arrived."""
        try:
            self._send(connection)
            connection.send(protocol.request("detach", {}))
            deadline = time.monotonic() + CLOSE_SECONDS
            while (left := deadline - time.monotonic()) > 0:
                connection.socket.settimeout(left)
                if any(wire_fields.flag(frame, "end") for frame in connection.receive()):
                    return
        except GuestDisconnected:
            return

    def _came(self, connection: Connection) -> str:
        """Process received data; return the reason of the end, if it has ended."""
        for frame in connection.receive():
            self._reconnection.heard()
            match wire_fields.event(frame):
                case "attached":
                    self._attached(frame)
                case "output":
                    self._mirror.output(frame)
                    self._look_soon()
                case "gap":
                    self._mirror.gap(frame)
                case "standing":
                    self._stands(frame)
                case "typed":
                    self._arrived(wire_fields.integer(frame, "count"))
                case "refused":
                    self._arrived(wire_fields.integer(frame, "count"))
                    self._explain()
                case "closed":
                    return wire_fields.text(frame, "reason", "closed") or "closed"
                case "error":
                    raise_error(frame)
        return ""

    def _attached(self, frame: Frame) -> None:
        first, self._take = self._mirror.next is None, False
        # An older session, which does not know this operation, would end the call.
        self._answers = self._answers and wire_fields.flag(frame, "answers")
        self._takes = wire_fields.flag(frame, "takes")
        self._arrived(wire_fields.integer(frame, "typed"))
        self._sent = self._taken
        if first:
            self._mirror.next = wire_fields.integer(frame, "offset")
        self._stands(frame)
        self._look_at = 0.0
        if first and self._standing:
            self._mirror.notice(
                f"{self._standing_text()} {self._detach_key} leaves, {command_keys.COMMAND_KEY} ? shows keys"
            )

    def _arrived(self, count: int) -> None:
        """Note that the shell has this many bytes of the input."""
        if self._taken < count <= self._taken + len(self._unsent):
            del self._unsent[: count - self._taken]
            self._taken = count

    def _stands(self, frame: Frame) -> None:
        """Record the people with the right to write, and the size of the session's terminal."""
        before, self._standing = (
            self._standing,
            (wire_fields.flag(frame, "writes"), plain(wire_fields.optional_text(frame, "holder") or "", 80)),
        )
        size = wire_fields.integer(frame, "rows", 1), wire_fields.integer(frame, "cols", 1)
        if size != self._session_size:
            self._session_size = size
            self._mirror.renew(self._person.size())
        self._look_at = 0.0
        if before and before != self._standing:
            self._mirror.notice(self._standing_text())

    def _explain(self) -> None:
        self._mirror.notice(f"not passed on. {self._standing_text()}")

    def _standing_text(self) -> str:
        writes, holder = self._standing or (False, "")
        if self._read_only:
            return "You are watching, as requested."
        if not writes:
            return f"You are watching: {holder} holds the shell; {command_keys.COMMAND_KEY} t takes it."
        return f"The shell is held by {holder}." if holder else "No one holds the shell."

    def _resize(self, connection: Connection) -> None:
        size = self._person.size()
        rows, cols = self._mirror.room(size)
        connection.send(protocol.request("resize", {"rows": rows, "cols": cols}))
        self._mirror.renew(size)
