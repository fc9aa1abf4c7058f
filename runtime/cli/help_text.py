"""What `holdfast --help` prints in a terminal of at least 80 columns, so that it need not load every verb.

Typer makes it of their definitions; a test compares, and prints what belongs here. Pure data.
"""

from __future__ import annotations

COLUMNS = 80
"""Typer writes lines no longer than this, in wider terminals too."""
TEXT = """\
Usage: holdfast [OPTIONS] COMMAND [ARGS]...

  Sandbox sessions whose live execution state can be captured, restored and
  forked.

Every day:
  new        Start a session.
  ls         List sessions.
  exec       Run a command in the session's shell.
  cell       Run code in the session's Jupyter kernel.
  attach     Join the session's terminal.
  pulse      Show what is running and what it is waiting for.
  snapshot   Capture a session, running processes included.
  restore    Start a new session from a snapshot.
  fork       Start several copies of a session or snapshot.
  rm         End sessions and delete them.

More (`holdfast help all` explains each):
  Sessions   suspend, resume, rewind, network, shells, lease, kernels, kernel
  Run        run, cp, wait, send, screen, jobs, job, output, kill
  Work       task, checkpoint, handoff, board, report, artifact
  Observe    events, journal, drift, replay, watch
  Snapshots  snapshots, template, diff, verify, redo, rmi, serve-captures
  Move       move, receive, fits, thaw, export, import, push, pull, key
  CI         ci, retry, bisect
  Keep       policy, autosnap, pin, unpin, quota, gc
  Agents     mcp, serve
  Machine    doctor, image

Options (`holdfast VERB --help` lists those of a verb):
  --json         One JSON object or list on standard output.
  --as ACTOR     The actor for the journal: agent:NAME or person:NAME.
  --reason TEXT  Why, for the journal.
  -q, --quiet    Do not show on the terminal what is under way.
  --version      Show the version.
  --help         Show this message and exit.
"""
