"""Verbs: preview, ports."""

from __future__ import annotations

from holdfast.errors import InvalidArgument
from holdfast.runtime.cli import printing
from holdfast.runtime.cli.arguments import JSON, SESSION_REF
from holdfast.runtime.cli.caller import controller, wants_json
from holdfast.runtime.cli.grammar import argument, examples, option

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.runtime.pulse.listening_ports import ListeningPort

_ANSWERS = {
    "other": "accepts connections",
    "silent": "no answer",
    "unreachable": "cannot be reached from loopback",
    "untried": "",
}
_PROGRAM = 60


@examples("preview work 3000", "preview work 3000 --for 2h --public", "preview work 3000 --revoke")
def preview(
    session: str = SESSION_REF,
    port: int = argument("PORT", help="A port of the session."),
    public: bool = option(
        "--public", help=("Let everyone who knows the name see the port, even without the link.")
    ),
    lasting: str | None = option(
        "--for",
        metavar="DURATION",
        help=("How long the link is valid, such as 2h or 7d; 8h by default, at most 30d."),
    ),
    revoke: bool = option("--revoke", help="End all links of the port, and make it private."),
    json: bool = JSON,
) -> None:
    """Print a link by which a browser sees what listens at a port. It needs `holdfast serve`."""
    if revoke and (public or lasting is not None):
        raise InvalidArgument(
            "cannot both make and revoke links", hint=("leave out --revoke, or the other options")
        )
    found = controller().session(session)
    if revoke:
        found.revoke_preview(port)
        if wants_json(json):
            printing.emit({"id": found.id, "name": found.name, "port": port})
        return
    from holdfast.base.quantities import parse_duration
    from holdfast.base.text import plain, seconds
    from holdfast.runtime.sessions import preview_grants

    time = preview_grants.SECONDS if lasting is None else parse_duration(lasting)
    if not time:
        raise InvalidArgument(
            f"cannot use the time '{plain(lasting or '', 40)}'", hint="for example 30m, 2h or 7d"
        )
    made = found.preview(port, public=public, seconds=time)
    if wants_json(json):
        printing.emit({"id": found.id, "name": found.name, **made.as_dict()})
        return
    printing.say(made.url)
    if made.public:
        printing.note(f"port {port} is public: everyone who knows its name can see it")
    else:
        printing.note(
            f"the link shows port {port} for {seconds(time)}, and nothing else, to everyone who has the link"
        )


@examples("ports work")
def ports(session: str = SESSION_REF, json: bool = JSON) -> None:
    """Show the programs that listen in a session, and how they answer."""
    session_ = controller().session(session)
    found = session_.ports()
    if wants_json(json):
        told = [each.as_dict() for each in found]
        printing.emit({"id": session_.id, "name": session_.name, "ports": told})
        return
    if not found:
        printing.note(f"nothing listens in {session_.name}")
        return
    printing.table(["PORT", "ADDRESS", "PROGRAM", "ANSWERS"], map(_row, found))


def _row(port: ListeningPort) -> list[str]:
    answer = _ANSWERS.get(port.answer)
    if answer is None:
        answer = " ".join(str(each) for each in (port.status, port.title) if each)
    program = port.program if len(port.program) <= _PROGRAM else port.program[: _PROGRAM - 1] + "…"
    shown = f"{program} (pid {port.pid})" if port.pid else program
    return [str(port.port), ", ".join(port.addresses), shown, answer]
