"""Answers or interrupts a command or a cell, and follows it from there."""

from __future__ import annotations

from holdfast.errors import InvalidArgument
from holdfast.runtime.guest_rpc import call_arguments, typing_input, wire_fields
from holdfast.runtime.guest_rpc.kernel_calls import KernelCall, OnEvent, OnInput
from holdfast.runtime.guest_rpc.patience import Patience
from holdfast.runtime.guest_rpc.results import CellResult, ExecResult
from holdfast.runtime.guest_rpc.shell_calls import Following, OnBytes, OnOutput

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.runtime.guest_rpc.session_channel import SessionChannel
    from holdfast.runtime.guest_rpc.shell_calls import OnOffset, OnStart, OnWaiting

LONGEST = 1 << 20


def answer(
    channel: SessionChannel,
    text: str | bytes,
    *,
    shell: str,
    on_output: OnOutput | None = None,
    on_bytes: OnBytes | None = None,
    wait: bool = False,
    patience: float | Patience | None = None,
    on_waiting: OnWaiting | None = None,
    on_start: OnStart | None = None,
    on_offset: OnOffset | None = None,
) -> ExecResult:
    """Type text into the terminal of a shell and follow the command that runs in it.

    Raises:
        InvalidArgument: the text is too long; or no command of `exec` runs, although the text was typed.
    """
    data, patience = call_arguments.typed(text, "answer"), Patience.of(patience)
    if len(data) > LONGEST:
        raise InvalidArgument(f"cannot answer: the text has {len(data)} bytes, the limit is {LONGEST}")
    sent = typing_input.send(channel, "send", data, shell=shell)
    if sent is None:
        raise InvalidArgument("cannot answer: there is nothing to type", hint='"\\n" is Enter')
    command = wire_fields.optional_text(sent, "exec")
    if command is None:
        raise InvalidArgument(
            "cannot wait for the command: the shell runs no command of `exec`",
            hint="the text was typed; `holdfast screen` shows its effect",
        )
    following = Following(
        channel.client(),
        channel.reconnection(),
        command,
        shell=shell,
        on_output=on_output,
        on_bytes=on_bytes,
        wait=wait,
        patience=patience,
    )
    following.on_waiting = on_waiting
    following.on_start = on_start
    following.on_offset = on_offset
    return following.run(wire_fields.integer(sent, "offset"))


def interrupt(
    channel: SessionChannel, *, shell: str, patience: float, command_id: str | None = None
) -> ExecResult | None:
    """Interrupt the foreground of a shell, and follow the command of `exec` that was running.

    With a `command_id`, nothing is done unless that command runs.
    """
    sent = channel.request("signal", shell=shell, signal="INT", id=command_id)
    command = wire_fields.optional_text(sent, "exec")
    if command is None:
        return None
    following = Following(channel.client(), channel.reconnection(), command, shell=shell, patience=patience)
    return following.run(wire_fields.integer(sent, "offset"))


def answer_cell(
    channel: SessionChannel,
    waiting: CellResult,
    text: str,
    *,
    kernel: str,
    on_event: OnEvent | None = None,
    on_input: OnInput | None = None,
    patience: float | Patience | None = None,
) -> CellResult:
    """Answer the question of a cell and follow it.

    Raises:
        GuestError: it asks nothing.
    """
    channel.request("input", text.encode("utf-8", "replace"), uses=True, kernel=kernel)
    return KernelCall(
        channel.client(),
        channel.reconnection(),
        "",
        kernel=kernel,
        timeout=None,
        on_event=on_event,
        on_input=on_input,
        joined=(waiting.cell_id, waiting.seq),
        patience=patience,
    ).run()
