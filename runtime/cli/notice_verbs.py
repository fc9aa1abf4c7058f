"""Verbs: notices ls, add, test, rm, watch."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from contextlib import suppress

from holdfast.errors import InvalidArgument, ServerUnavailable
from holdfast.runtime.cli import printing
from holdfast.runtime.cli.arguments import JSON, session_names
from holdfast.runtime.cli.caller import acting, controller, wants_json
from holdfast.runtime.cli.grammar import argument, examples, option

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from holdfast.runtime.client.server_notices import Notices
    from holdfast.runtime.notices.notice_rules import SentNotice, Wish

WAYS = ("desktop", "osc9", "osc777", "line")
_ID = argument("ID", help="The subscription, as `notices ls` shows it.")
_SESSION = option("--session", metavar="SESSION", help="Only of this session.", names=session_names)
_KIND = option("--kind", help="waiting, ended, failed or died; all by default. Repeatable.")
_AFTER = option(
    "--after", metavar="TIME", help="A command must have run that long for a notice of its end (60s)."
)
_QUIET = option(
    "--quiet", metavar="HOURS", help="Hours without notices, such as `22:00-07:00 Europe/Berlin`."
)


@examples("notices add https://chat.example.org/hooks/7 --kind waiting --kind died")
def add(
    webhook: str = argument("URL", help="Gets a signed POST for each notice; its host must be public."),
    session: str | None = _SESSION,
    kind: list[str] | None = _KIND,
    after: str | None = _AFTER,
    quiet: str | None = _QUIET,
    json: bool = JSON,
) -> None:
    """Let `holdfast serve` send notices to a URL. The secret that verifies them is shown once."""
    with _notices() as notices:
        made = notices.add(
            webhook, session=session, kinds=_kinds(kind), after=_seconds(after), quiet=quiet or ""
        )
    if wants_json(json):
        printing.emit(made.model_dump())
        return
    printing.say(made.secret or "")
    printing.note(f"{made.id} sends notices to {made.url}; `holdfast notices test {made.id}` tries it")


@examples("notices ls")
def ls(json: bool = JSON) -> None:
    """List your subscriptions, of URLs and of browsers."""
    with _notices() as notices:
        found = notices.list()
    if wants_json(json):
        printing.emit([each.model_dump() for each in found])
        return
    if not found:
        printing.note("you do not have a subscription; `holdfast notices add URL` makes one")
        return
    printing.table(
        ["ID", "WAY", "TO", "SESSION", "KINDS", "QUIET", "TROUBLE"],
        [
            [
                each.id,
                each.way,
                each.url,
                each.session or "all",
                " ".join(each.kinds),
                each.quiet,
                f"{each.failures} failed: {each.trouble}" if each.trouble else "",
            ]
            for each in found
        ],
    )


@examples("notices test 5b1f0c3a9d2e")
def try_out(subscription: str = _ID, json: bool = JSON) -> None:
    """Send a trial notice, and say whether it arrived."""
    with _notices() as notices:
        trouble = notices.test(subscription)
    if wants_json(json):
        printing.emit({"id": subscription, "trouble": trouble})
    elif not trouble:
        printing.note("the trial has arrived")
    if trouble:
        raise ServerUnavailable(
            f"cannot send notices of {subscription}: {trouble}", hint="`holdfast notices ls`"
        )


@examples("notices rm 5b1f0c3a9d2e")
def rm(subscription: str = _ID, json: bool = JSON) -> None:
    """Remove a subscription."""
    with _notices() as notices:
        notices.remove(subscription)
    if wants_json(json):
        printing.emit({"id": subscription})
    else:
        printing.note(f"removed {subscription}")


@examples("notices watch", "notices watch --session work --by osc777")
def watch(
    session: str | None = _SESSION,
    kind: list[str] | None = _KIND,
    after: str | None = _AFTER,
    quiet: str | None = _QUIET,
    by: str | None = option(
        "--by", metavar="WAY", help="desktop (notify-send), osc9 or osc777 (your terminal), or line."
    ),
    json: bool = JSON,
) -> None:
    """Notify you on this desktop until Ctrl-C. It does without a server, and wakes no session.

    Each is printed, and `notify-send` shows it if there is a desktop and that program.
    """
    if by is not None and by not in WAYS:
        raise InvalidArgument(f"cannot notify by '{by[:40]}'", hint=f"one of {', '.join(WAYS)}")
    from holdfast.runtime.notices.notice_follower import NoticeFollower

    holdfast = controller()
    wish = _wish("" if session is None else holdfast.session(session).id, kind, after, quiet)
    way = by or ("desktop" if _has_desktop() else "line")
    printing.note("notifying you of sessions; Ctrl-C ends it")
    for notice in NoticeFollower(holdfast, wish).notices():
        if wants_json(json):
            printing.emit(notice.as_dict())
        else:
            printing.say(": ".join(each for each in (notice.title, notice.text) if each))
        sys.stdout.flush()
        show(notice, way)


def show(notice: SentNotice, way: str) -> None:
    """Show a notice on the desktop, or by the terminal, in addition to the printed line."""
    if way == "desktop":
        with suppress(OSError, subprocess.TimeoutExpired):
            subprocess.run(
                ["notify-send", "--app-name", "Holdfast", "--", notice.title, notice.text],
                check=False,
                timeout=10,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
    elif way != "line" and sys.stderr.isatty():
        sys.stderr.write(terminal_notice(notice.title, notice.text, way))
        sys.stderr.flush()


def terminal_notice(title: str, text: str, way: str) -> str:
    """Return the sequence by which a terminal shows a notice. Pure.

    A semicolon separates the fields of OSC 777, so the title cannot have one.
    """
    if way == "osc777":
        return f"\x1b]777;notify;{title.replace(';', ',')};{text}\x1b\\"
    return f"\x1b]9;{f'{title}: {text}' if text else title}\x1b\\"


def _has_desktop() -> bool:
    return bool(shutil.which("notify-send")) and any(
        os.environ.get(each) for each in ("DISPLAY", "WAYLAND_DISPLAY")
    )


def _notices() -> Notices:
    from holdfast.runtime.client.server_notices import Notices

    return Notices(actor=acting())


def _kinds(given: list[str] | None) -> list[str] | None:
    from holdfast.runtime.notices.notice_rules import KINDS

    for each in given or ():
        if each not in KINDS:
            raise InvalidArgument(f"cannot notify of '{each[:40]}'", hint=f"one of {', '.join(KINDS)}")
    return given


def _seconds(given: str | None) -> float:
    from holdfast.runtime.cli.terminal_verbs import duration

    return 60.0 if given is None else 0.0 if given in ("0", "0s") else duration(given)


def _wish(session: str, kind: list[str] | None, after: str | None, quiet: str | None) -> Wish:
    from holdfast.runtime.notices.notice_rules import KINDS, Wish
    from holdfast.runtime.notices.subscriptions import quiet_hours

    more: dict[str, Any] = {"kinds": frozenset(_kinds(kind) or KINDS), "after": _seconds(after)}
    return Wish(acting() or "", session, quiet=quiet_hours(quiet or ""), **more)
