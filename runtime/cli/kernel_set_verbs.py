"""Verb: kernels."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.base.text import plain
from holdfast.errors import InvalidArgument
from holdfast.runtime.cli import printing
from holdfast.runtime.cli.arguments import JSON, SESSION_REF
from holdfast.runtime.cli.caller import controller, wants_json
from holdfast.runtime.cli.grammar import argument, examples, option

if TYPE_CHECKING:
    from typing import Any

    from holdfast.runtime.guest_rpc.kernel_report import KernelInfo


@examples("kernels work", "kernels work open lab")
def kernels(
    session: str = SESSION_REF,
    action: str = argument("open|close", default="list", help="Without it, list them."),
    kernel: str | None = argument("NAME", default=None, help="Its name."),
    spec: str | None = option("--spec", metavar="SPEC", help="With open: of which spec (python3)."),
    force: bool = option("--force", help="With close: even if a cell runs in it."),
    json: bool = JSON,
) -> None:
    """List the session's kernels and the specs of others, open one beside the main one, or close it.

    `cell`, `kernel interrupt` and `kernel restart` take its name with `--kernel`.
    """
    if kernel is None and action in ("open", "close"):
        raise InvalidArgument(f"cannot {action} a kernel without its name", hint=f"`kernels S {action} NAME`")
    if action not in ("open", "close") and (action, kernel) != ("list", None):
        raise InvalidArgument(
            f"cannot do '{plain(action, 40)}' with the kernels",
            hint="`holdfast kernels S`, `kernels S open NAME --spec SPEC`, `kernels S close NAME`",
        )
    found = controller().session(session)
    as_json = wants_json(json)
    if action == "close":
        found.kernels.close(kernel or "", force=force)
        if as_json:
            printing.emit({"id": found.id, "name": found.name, "closed": kernel})
        return
    if action == "open":
        one = found.kernels.open(kernel or "", **({} if spec is None else {"spec": spec}))
        if as_json:
            printing.emit({"id": found.id, "name": found.name, **_fields(one)})
        return
    opened, specs = found.kernels.list(), found.kernels.specs()
    if as_json:
        printing.emit(
            {"kernels": [_fields(each) for each in opened], "specs": [each.model_dump() for each in specs]}
        )
        return
    printing.table(
        ("NAME", "SPEC", "LANGUAGE", "PID", "STATE"),
        [(each.name, each.spec, each.language, str(each.pid or ""), each.state) for each in opened],
    )
    printing.say("")
    printing.table(
        ("SPEC", "LANGUAGE", "DESCRIPTION"),
        [(each.name, each.language, each.display_name) for each in specs],
    )


def _fields(one: KernelInfo) -> dict[str, Any]:
    fields = one.model_dump(include={"spec", "language", "cwd", "pid", "state", "epoch"})
    return {"kernel": one.name, **fields}
