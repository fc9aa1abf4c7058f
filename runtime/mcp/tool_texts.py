"""What an agent reads about the tools.  Each word costs every conversation."""

from __future__ import annotations

INSTRUCTIONS = """\
A Linux sandbox that persists: one bash and one Jupyter kernel for all calls. Directory, variables, \
background jobs and servers stay, also when this conversation ends. Calls need no session; the \
default one is made when first used.
The last line of each answer, in [brackets], has the facts: exit code, time, directory, what waits, \
ids.
- A command that still runs after `wait` seconds is not an error: it continues, and wait(id) follows \
it.
- A program that asks something (password, y/n, a debugger, an editor) is reported as waiting: \
answer(text=…) or answer(key="C-c").
- Servers and builds: run(background=true) leaves the shell free.
- Before anything risky: snapshot(label). It holds files, processes and memory; go_back returns to \
it, with copies=n it makes n sessions there.
- Not sure what is still running? status says it; do not guess, and do not start things twice."""

RUN = """\
Run a command in the session's bash. cd, exports and jobs stay. Returns its output and exit code, or \
after `wait` seconds that it still runs. background=true: on a terminal of its own, for servers and \
long builds."""
ANSWER = """\
Type `text` (and Enter) for the command or cell that waits, or press a key: C-c, C-d, Enter, Up, \
Esc, Tab. `id` means a background command, or a cell."""
WAIT = """\
Follow a running command, background command or cell, of any conversation, until it ends or asks \
something, at most `seconds`. Shows new output. With `port` wait until a server accepts there."""
READ = """\
Show the kept output of a command or cell from a line on; a negative one counts from the end."""
CELL = """\
Run Python in the session's Jupyter kernel, whose variables stay. Returns output, value, traceback, \
and a picture as PNG."""
SCREEN = """\
Show the terminal as a person would see it: for editors, debuggers and other full-screen programs."""
STATUS = """\
Show what is now: what runs or waits, processes, ports, memory, kernel variables, what died since \
the last status, snapshots to go back to."""
SNAPSHOT = "Capture the session at one instant: files, processes, memory. It continues."
GO_BACK = """\
Return the session to a snapshot (label or id; @-1 is the last); the present is kept as a snapshot. \
With copies=n the session stays, and n new ones continue from the snapshot."""
CHANGES = """\
Show what has changed since a snapshot, or `10m`, or a time: files, packages, processes, ports, \
variables, and who did it."""
FILE = """\
Read a file from `line` on, or list a folder; write it with `content`; edit it by replacing `old`, \
which must be in it once, with `new`."""
SESSIONS = """\
List sessions; make one with `new`, a name; end one with `end`: what is not in a snapshot is lost."""
TASK = """\
The record of the work, kept with the session for the next conversation: goal, plan, decisions. A \
plan has a line for each phase, then `- STEP :: COMMAND`; done(step="1.2") runs COMMAND and counts \
only if it passes. resume says where to continue. An action that lacks an argument says what it takes."""
