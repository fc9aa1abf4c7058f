"""The tool for a session's task: its goal and steps, verified one by one, for the next conversation.

Arguments are words of agents, read here by pure functions. An agent over MCP does not have a command line:
where a text for people names a command, the agent reads the tool's action.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import PurePosixPath
from typing import Any, Literal

from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError

from holdfast.base.quantities import parse_duration, size_text
from holdfast.base.text import plain
from holdfast.errors import InvalidArgument, SessionFileNotFound
from holdfast.runtime.api.artifact_handles import HomeArtifacts
from holdfast.runtime.api.session import Session
from holdfast.runtime.api.session_task import SessionTask, TaskVerdict
from holdfast.runtime.history.drift.starting_point import time_of
from holdfast.runtime.mcp.agent_sessions import AgentSession, AgentSessions
from holdfast.runtime.mcp.agent_tools import AgentTools, LastLine, said
from holdfast.runtime.mcp.outcomes import shorten
from holdfast.runtime.task import handoff
from holdfast.runtime.task.stated_actions import StatedAction
from holdfast.runtime.task.task_record import TaskRecord
from holdfast.runtime.task.task_standing import TaskStanding

_FIELD = re.compile(r"^(?P<name>[a-z][a-z -]*): *(?P<value>.*)$")
_COMMANDS = (
    (
        re.compile(r"`holdfast task unblock \S+ && holdfast task resume \S+`"),
        "`task(unblock)`, `task(resume)`",
    ),
    (re.compile(r"`holdfast task (?P<verb>unblock|resume) [^`]*`"), r"`task(\g<verb>)`"),
    (re.compile(r"`holdfast task show [^`]*`"), "`task(export)`"),
    (
        re.compile(r"`holdfast task (?P<verb>done|claim|release|answer|drop) \S+ (?P<rest>[^`]*)`"),
        r"`task(\g<verb>)` \g<rest>",
    ),
    (re.compile(r"`holdfast wait [^`]*`"), "`shell` without a command"),
    (re.compile(r"`holdfast (?P<verb>journal|drift|events|pulse) [^`]*`"), r"`status`"),
)
"""Commands in texts for people, and an agent's way to do the same."""


def for_agents(text: str) -> str:
    """Return a text with the actions of tools in place of commands."""
    for pattern, instead in _COMMANDS:
        text = pattern.sub(instead, text)
    return text


def fields(text: str, known: tuple[str, ...], first: str = "") -> dict[str, Any]:
    """Return the values of lines such as `back end: sqlite`; the first line can be the value of `first`.

    Raises:
        InvalidArgument: a line has another field than those, or one occurs twice.
    """
    found: dict[str, Any] = {}
    for place, line in enumerate(filter(None, map(str.strip, text.splitlines()))):
        match = _FIELD.fullmatch(line)
        name = match["name"].replace(" ", "_").replace("-", "_") if match else ""
        if name not in known and place == 0 and first:
            found[first] = line
        elif match is None or name not in known or name in found:
            names = ", ".join(f"`{each.replace('_', ' ')}: …`" for each in known)
            raise InvalidArgument(f"cannot read line {place + 1}", hint=f"lines such as {names}")
        else:
            found[name] = match["value"]
    return found


def done(text: str) -> dict[str, Any]:
    """Return the arguments of `SessionTask.done`: a report's path, and lines `timeout: …`, `busy wait: …`.

    Raises:
        InvalidArgument: a line is not understood, or a time is not one.
    """
    found = fields(text, ("junit", "timeout", "busy_wait"), "junit")
    return found | {name: _seconds(found[name]) for name in ("timeout", "busy_wait") if name in found}


def block(text: str) -> dict[str, Any]:
    """Return the arguments of `SessionTask.block` but what it needs and its step.

    Raises:
        InvalidArgument: a line is not understood.
    """
    found = fields(text, ("why", "entry", "tried", "suspend"), "why")
    if found.get("suspend", "yes") not in ("yes", "no"):
        raise InvalidArgument("cannot read `suspend`: it must be yes or no")
    return found | ({"suspend": found["suspend"] == "yes"} if "suspend" in found else {})


def checkpoint(text: str) -> dict[str, Any]:
    """Return the arguments of `SessionTask.checkpoint`: a label, and lines `resume at: …`, `kind: …`.

    Raises:
        InvalidArgument: a line is not understood.
    """
    found = fields(text, ("label", "resume_at", "kind"), "label")
    if found.get("kind", "live") not in ("live", "filesystem"):
        raise InvalidArgument(
            "cannot take this kind of checkpoint", hint="`kind: live` or `kind: filesystem`"
        )
    return found


def artifact(text: str) -> dict[str, Any]:
    """Return the arguments of `SessionTask.artifact`: a path, and lines `name: …`, `entry: #12`.

    Without a name it has the last part of its path.

    Raises:
        InvalidArgument: a line is not understood, or there is no path.
    """
    found = fields(text, ("path", "name", "entry"), "path")
    if "path" not in found:
        raise InvalidArgument("cannot keep an artifact without its path")
    return {"name": PurePosixPath(found["path"]).name or found["path"], **found}


def policy(text: str) -> dict[str, Any]:
    """Return the arguments of `SessionTask.set` that lines of a policy say; `profile: NAME=COMMAND` is one.

    Raises:
        InvalidArgument: a line is not understood.
    """
    lines = [line for line in map(str.strip, text.splitlines()) if line]
    profiles = [line.partition(":")[2].strip() for line in lines if line.startswith("profile:")]
    others = "\n".join(line for line in lines if not line.startswith("profile:"))
    found = fields(others, ("verify", "back_end", "artifacts", "checkpoint", "retry_limit"))
    if "retry_limit" in found:
        if not re.fullmatch(r"[0-9]{1,4}", found["retry_limit"], re.ASCII):
            raise InvalidArgument("cannot use this retry limit: it is not a number")
        found["retry_limit"] = int(found["retry_limit"])
    if profiles:
        if not all("=" in each for each in profiles):
            raise InvalidArgument(
                "cannot use this profile: it lacks a command", hint="`profile: NAME=COMMAND`"
            )
        pairs = (each.partition("=") for each in profiles)
        found["profiles"] = {name.strip(): command for name, _, command in pairs}
    return found


def _seconds(text: str) -> float:
    if (found := parse_duration(text)) is None:
        raise InvalidArgument("cannot use this time", hint="seconds, or such as `90s` or `5m`")
    return found


_WANTED_ARTIFACT = re.compile(r"(?P<name>.+?)(?: of (?P<session>\S+))?(?: to (?P<path>\S.*))?", re.DOTALL)


def artifacts_listed(kept: HomeArtifacts, task: SessionTask) -> str:
    """Return the artifacts of all sessions of the home, one a line, and the orphans of one session."""
    lines = [
        f"{plain(each.name, 100)} of {each.session}: {size_text(each.bytes)}, {plain(each.path, 200)}"
        + (f", by {each.entry}" if each.entry else "")
        + (f", before {each.snapshot}" if each.snapshot else "")
        for each in kept.list()
    ]
    if task.record() is not None:
        lines += [
            f"nothing accounts for {plain(each.path, 200)}, {size_text(each.bytes)}"
            for each in task.orphans()
        ]
    return "\n".join(lines) or "artifacts: none"


def fetch_artifact(kept: HomeArtifacts, session: Session, wanted: str) -> str:
    """Write an artifact into a session, `NAME` or `NAME of SESSION`, optionally with `to PATH`; return the
    place.

    Without a path it gets the last part of its name, in the directory of the shell.

    Raises:
        ArtifactNotFound: there is no artifact with that name.
        InvalidArgument: several sessions have one, or something is at the place.
    """
    told = _WANTED_ARTIFACT.fullmatch(wanted.strip())
    if told is None:
        raise InvalidArgument("cannot fetch an artifact without its name", hint="such as `report of work`")
    found = kept.find(told["name"], told["session"])
    place = told["path"] or PurePosixPath(found.name).name
    with suppress(SessionFileNotFound):
        session.files.stat(place, follow=False)
        raise InvalidArgument(
            f"cannot fetch artifact {plain(found.name, 100)}: something is already at {plain(place, 200)}",
            hint="name a different place: `NAME to PATH`",
        )
    size = session.files.write_parts(place, kept.parts(found.name, found.session_id))
    return f"fetched {plain(found.name, 100)} to {plain(place, 200)}, {size_text(size)}"


_WANTED_REDO = re.compile(
    r"(?P<snapshot>\S+)(?: from (?P<since>\S+))?(?: without (?P<skip>#[0-9]+(?:[, ]+#[0-9]+)*))?"
)


def actions_listed(found: Sequence[StatedAction]) -> str:
    """Return actions, one a line: entry, actor, text, reason, outcome."""
    rows = (
        (each.entry, each.actor, plain(each.text.strip(), 200), each.why and f"({each.why})", each.outcome)
        for each in found
    )
    return "\n".join("  ".join(part for part in row if part) for row in rows)


def redo_actions(agents: AgentSessions, found: AgentSession, wanted: str) -> str:
    """Repeat the actions that led to a snapshot in a new session for the agent, and return the progress.

    `wanted` is `SNAPSHOT`, `SNAPSHOT from EARLIER`, each also with `without #12, #13`.

    Raises:
        InvalidArgument: that is not what was given.
    """
    told = _WANTED_REDO.fullmatch(wanted.strip())
    if told is None:
        raise InvalidArgument(
            f"cannot redo {plain(wanted, 80)!r}: that is not a snapshot",
            hint="such as `good from begin without #12, #13`",
        )
    skip = re.findall(r"#[0-9]+", told["skip"] or "")
    made = agents.holdfast.snapshot(told["snapshot"]).redo(since=told["since"], skip=skip)
    name = agents.keep(agents.holdfast.session(made.session)).session.name
    lines = [
        f"{each.action.entry} {plain(each.action.text, 100)}: {each.fate} {each.why}" for each in made.actions
    ]
    ended = "complete" if made.complete else f"it ended early, {made.left} actions were not reached"
    return said(found, shorten("\n".join(lines)).text, f"made {name}", ended, "name it as `session`")


Action = Literal[
    "show",
    "goal",
    "plan",
    "done",
    "step",
    "claim",
    "release",
    "skip",
    "decide",
    "alternative",
    "answer",
    "note",
    "question",
    "risk",
    "resume_at",
    "block",
    "unblock",
    "attempt",
    "reread",
    "artifact",
    "artifacts",
    "fetch",
    "drop",
    "verify",
    "policy",
    "export",
    "import",
    "replace",
    "board",
    "report",
    "checkpoint",
    "resume",
    "actions",
    "redo",
]
_STEP = ("status", "title", "verify", "back_end")
"""The facts about a step that lines of an argument can give."""
_CHANGES: Mapping[str, Callable[[SessionTask, str, str, str], TaskRecord]] = {
    "goal": lambda task, text, why, step: task.set(goal=text),
    "plan": lambda task, text, why, step: task.plan(text),
    "skip": lambda task, text, why, step: task.step(step, status="skipped"),
    "step": lambda task, text, why, step: task.step(step, **fields(text, _STEP)),
    "claim": lambda task, text, why, step: task.claim(step, take=text.strip() == "take"),
    "release": lambda task, text, why, step: task.release(step),
    "decide": lambda task, text, why, step: task.decide(text, why),
    "alternative": lambda task, text, why, step: task.alternative(text, why),
    "answer": lambda task, text, why, step: task.answer(_item(f"question {text}")[1], why),
    "note": lambda task, text, why, step: task.note(text, step=step or None),
    "question": lambda task, text, why, step: task.note(text, "question", step=step or None),
    "risk": lambda task, text, why, step: task.note(text, "risk"),
    "resume_at": lambda task, text, why, step: task.set(resume_at=text),
    "block": lambda task, text, why, step: task.block(
        needs=why, step=step or None, **{"why": text, **block(text)}
    ),
    "unblock": lambda task, text, why, step: task.unblock(text or None),
    "reread": lambda task, text, why, step: task.read_again(text, why or None),
    "artifact": lambda task, text, why, step: task.artifact(**artifact(text)),
    "drop": lambda task, text, why, step: task.drop(*_item(text)),
    "verify": lambda task, text, why, step: task.step(step, verify=text) if step else task.set(verify=text),
    "policy": lambda task, text, why, step: task.set(**policy(text)),
    "import": lambda task, text, why, step: task.import_(text),
    "replace": lambda task, text, why, step: task.import_(text, replace=True),
}
_NEEDS: Mapping[str, tuple[str, ...]] = {
    "goal": ("text",),
    "plan": ("text",),
    "done": ("step",),
    "step": ("step", "text"),
    "claim": ("step",),
    "release": ("step",),
    "skip": ("step",),
    "decide": ("text", "why"),
    "alternative": ("text", "why"),
    "answer": ("text", "why"),
    "policy": ("text",),
    "replace": ("text",),
    "report": ("text",),
    "note": ("text",),
    "question": ("text",),
    "risk": ("text",),
    "resume_at": ("text",),
    "block": ("text", "why"),
    "actions": ("text",),
    "redo": ("text",),
    "attempt": ("step", "text"),
    "reread": ("text",),
    "artifact": ("text",),
    "fetch": ("text",),
    "drop": ("text",),
    "verify": ("text",),
    "import": ("text",),
}
"""The arguments without which an action has no meaning."""
_FORMS: Mapping[str, str] = {
    "plan": "a line for each phase, then `- STEP :: COMMAND` for each step",
    "done": "such as step=`1.2`; text is the JUnit report that its command writes, if any, and lines "
    "`timeout: S`, `busy wait: S`",
    "step": "lines `status: active`, `title: …`, `verify: COMMAND`, `back end: …`",
    "claim": "text `take` takes it over from someone else",
    "decide": "text is the decision",
    "alternative": "text: the remaining work",
    "answer": "text is the number of the question, why the answer",
    "policy": "lines `retry limit: 3`, `verify: …`, `back end: …`, `artifacts: GLOBS`, "
    "`checkpoint: step 30m`, `profile: NAME=COMMAND`",
    "report": "text is since when, such as `7d`",
    "replace": "an exported record, even if it lacks newer entries",
    "block": (
        "text is the blocker, with lines `tried: …`, `entry: #12` and `suspend: yes` if "
        "wanted; why is the thing needed"
    ),
    "attempt": "text is the journal entry of its command, such as `#12`",
    "reread": "a path",
    "artifact": "a path, with lines `name: …` and `entry: #12` if wanted",
    "fetch": "`NAME`, `NAME of SESSION`, or `NAME to PATH`",
    "drop": "such as `question 2`",
    "verify": "a command, of one step or of all",
    "import": "what export gives",
    "actions": "a snapshot: its history",
    "redo": "a snapshot, such as `good` or `good from begin without #12, #13`",
}
"""The meaning of the arguments of an action, where their names do not tell, for callers who leave one out."""


class TaskTools(AgentTools):
    """The tool for the task of a session."""

    async def task(
        self,
        context: Context[Any, Any],
        action: Action = "show",
        text: str = "",
        why: str = "",
        step: str = "",
        session: str = "",
    ) -> str:
        """Show or change the task."""
        given = {"text": text, "why": why, "step": step}
        missing = [name for name in _NEEDS.get(action, ()) if not given[name].strip()]
        if missing:
            form = f" ({_FORMS[action]})" if action in _FORMS else ""
            raise ToolError(f"cannot do `{action}`: it needs {' and '.join(missing)}{form}")

        if action == "board":
            return await self.plainly(context, lambda _: _board(self.agents(context).holdfast.board()))
        if action == "report":
            return await self.plainly(context, lambda _: _report(self.agents(context), text))

        def work(found: AgentSession, _: LastLine) -> str:
            if action in _ANSWERS:
                return for_agents(_ANSWERS[action](self.agents(context), found, text, step))
            record = _CHANGES[action](found.session.task, text, why, step)
            done, total = record.finished
            return said(found, "", record.state, f"{done} of {total} steps done")

        return await self.call(
            context, session, work, stop=lambda found: found.session.interrupt() if action == "done" else None
        )


def _show(_agents: AgentSessions, found: AgentSession, text: str, _step: str) -> str:
    budget = int(text) if re.fullmatch(r"[1-9][0-9]{0,6}", text, re.ASCII) else handoff.DEFAULT_BUDGET
    return said(found, found.session.task.handoff(budget).rstrip())


def _report(agents: AgentSessions, text: str) -> str:
    begin = time_of(text, datetime.now().astimezone())
    if begin is None:
        raise InvalidArgument("cannot report: this is not a time", hint="such as `7d`")
    return shorten(agents.holdfast.report(datetime.fromtimestamp(begin, UTC)).text()).text


def _done(_agents: AgentSessions, found: AgentSession, text: str, step: str) -> str:
    return _verdict(found, step, found.session.task.done(step, **done(text)))


def _attempt(_agents: AgentSessions, found: AgentSession, text: str, step: str) -> str:
    verdict = found.session.task.attempt(step, text)
    facts = [f"attempt {text} at step {step} passed"]
    if (failure := verdict.failure) is not None:
        facts = [f"attempt {text} at step {step} failed", failure.failure_type, failure.failure_detail]
    return said(found, "", *facts)


def _export(_agents: AgentSessions, found: AgentSession, _text: str, _step: str) -> str:
    return said(found, found.session.task.export().rstrip())


def _checkpoint(_agents: AgentSessions, found: AgentSession, text: str, _step: str) -> str:
    return said(found, "", f"checkpoint {found.session.task.checkpoint(**checkpoint(text)).name}")


def _resume(_agents: AgentSessions, found: AgentSession, _text: str, _step: str) -> str:
    back = found.session.task.resume()
    return said(found, back.handoff(found.session.name, handoff.DEFAULT_BUDGET).rstrip(), back.how)


def _actions(agents: AgentSessions, found: AgentSession, snapshot: str, _step: str) -> str:
    return said(found, shorten(actions_listed(agents.holdfast.snapshot(snapshot).actions())).text)


def _artifacts(agents: AgentSessions, found: AgentSession, text: str, _step: str) -> str:
    if text.strip() == "collect":
        found.session.task.collect_artifacts()
    kept = artifacts_listed(agents.holdfast.artifacts, found.session.task)
    return said(found, shorten(kept).text)


def _fetch(agents: AgentSessions, found: AgentSession, text: str, _step: str) -> str:
    return said(found, "", fetch_artifact(agents.holdfast.artifacts, found.session, text))


def _redo(agents: AgentSessions, found: AgentSession, text: str, _step: str) -> str:
    return redo_actions(agents, found, text)


def _item(text: str) -> tuple[str, int]:
    kind, _, number = text.strip().partition(" ")
    if not re.fullmatch(r"[0-9]{1,4}", number.strip(), re.ASCII):
        raise InvalidArgument("cannot drop an item without its number", hint="such as `question 2`")
    return kind, int(number)


def _board(standings: Sequence[TaskStanding]) -> str:
    lines = [
        f"{each.session} [{each.session_state}] {each.state} {each.done}/{each.steps}: {each.goal}"
        + (f"; at {each.step}" if each.step else "")
        + (f", claimed by {each.claimed_by}" if each.claimed_by else "")
        + (f"; blocked: {each.blocked}, needs {each.needs}" if each.blocked else "")
        for each in standings
    ]
    return shorten("\n".join(lines)).text or "no session has a task"


def _verdict(found: AgentSession, step: str, verdict: TaskVerdict) -> str:
    if verdict.done:
        kept = f"checkpoint {verdict.checkpoint}" if verdict.checkpoint else ""
        proof = f"verified by {verdict.entry}" if verdict.entry else ""
        return said(found, "", f"step {step} done", proof, kept)
    failure = verdict.failure
    lines = [shorten(verdict.output).text]
    facts = [f"step {step} is not done"]
    if failure is not None:
        facts += [failure.failure_type, failure.failure_detail, failure.suggested_focus]
    return said(found, "\n".join(lines), *facts)


_ANSWERS: Mapping[str, Callable[[AgentSessions, AgentSession, str, str], str]] = {
    "show": _show,
    "done": _done,
    "attempt": _attempt,
    "export": _export,
    "checkpoint": _checkpoint,
    "resume": _resume,
    "artifacts": _artifacts,
    "fetch": _fetch,
    "actions": _actions,
    "redo": _redo,
}
"""Actions that answer with more than the state of the record; the texts are `text` and `step`."""
