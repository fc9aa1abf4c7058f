"""One session as a place to run a project's command in: prepares, starts, waits, reads the results.

A thin driver: its texts come from `commands`, results are judged elsewhere.
"""

from __future__ import annotations

import base64
import gzip
import time
import zlib
from typing import TYPE_CHECKING

from tests.compat.projects import commands, readers
from tests.compat.projects.comparison import Run
from tests.compat.projects.project import Project
from tests.compat.wording import ending

from holdfast.base.text import plain
from holdfast.errors import SessionError

if TYPE_CHECKING:
    from holdfast.runtime.api.job import Job
    from holdfast.runtime.api.session import Session

# Seconds, on a machine with far too much to do.
PREPARING, COLLECTING = 1800.0, 300.0


class NotPrepared(SessionError):
    """A project could not be fetched, built or read; the message is the end of the output."""


def prepare(session: Session, project: Project) -> str:
    """Fetch and build the project, and return its version.

    Raises:
        NotPrepared: that failed.
    """
    _checked(session, f"mkdir -p {commands.HOME}; {commands.prepared(project)}", "prepare", PREPARING)
    if not project.version:
        return ""
    said = _checked(session, commands.version(project), "tell the version of", COLLECTING)
    return plain((said.split() or [""])[-1], 40)


def start(session: Session, project: Project) -> Job:
    """Start the command in a fresh copy of the project."""
    _checked(session, commands.renewed(), "copy", COLLECTING)
    return session.detach(commands.run(project), cwd=commands.HOME)


def finish(session: Session, job: Job, project: Project, where: str) -> Run:
    """Wait until the command ends, and read its results.

    Raises:
        HoldfastError: the session cannot be used.
    """
    ended = job.wait(wait=True, patience=project.patience)
    if ended.running:
        info = job.info()
        doing = f", {info.observed.phrase(time.time())}" if info.observed else ""
        failure = f"has not ended after {project.patience:.0f} s{doing}: {_end(job.output(-2000))}"
        return Run(where, None, seconds=info.duration, failure=plain(failure, 400))
    return Run(
        where,
        ended.exit_code,
        _cases(session, project),
        commands.read_digests(session.exec(commands.digests(project), timeout=COLLECTING).text)
        if project.files
        else {},
        job.info().duration,
    )


def _cases(session: Session, project: Project) -> readers.Cases:
    if not project.reads:
        return {}
    path = f"{commands.RUN}/{project.result}" if project.result else commands.LOG
    return readers.READERS[project.reads](read(session, path))


def read(session: Session, path: str = commands.LOG) -> str:
    """Return a file of the session as text, by default the last run's output; empty if it is not there."""
    said = session.exec(commands.contents(path), timeout=COLLECTING)
    try:
        return gzip.decompress(base64.b64decode(said.text)).decode("utf-8", "replace")
    except (ValueError, OSError, EOFError, zlib.error):
        return ""


def _checked(session: Session, command: str, verb: str, seconds: float) -> str:
    done = session.exec(command, timeout=seconds, wait=True)
    if not done.ok:
        raise NotPrepared(f"cannot {verb} the project: {_end(done.output)}")
    return done.text


def _end(output: bytes) -> str:
    return ending(output[-4000:].decode("utf-8", "replace"))
