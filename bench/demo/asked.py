"""A command that asks for a password: known at once, captured while it asks, answered in a copy."""

from __future__ import annotations

import secrets

from bench.demo.narrator import Narrator
from holdfast import Session

CIPHER = "openssl enc -aes-256-cbc -pbkdf2"
SEALED = "/workspace/sealed"
PATIENCE_SECONDS = 60.0


def ask(session: Session, name: str, tell: Narrator) -> None:
    """Let a command ask for a password in a session whose shell is idle; leave nothing but the snapshot.

    Raises:
        CheckFailed: the question is not reported, or the copy and the original are not independent.
    """
    password, message = secrets.token_hex(4), f"opened {secrets.token_hex(4)}"
    session.exec(f"echo {message} | {CIPHER} -pass pass:{password} -out {SEALED}")

    command = f"read -rsp 'Password: ' password; echo; {CIPHER} -d -in {SEALED} -pass file:<(echo $password)"
    tell.say(f"$ {command}")
    asked = session.exec(command)
    state = asked.waiting
    waits = state is not None and (state.state, state.detail) == ("waiting", "password")
    tell.check(waits, "the call returns: the command waits for a password", asked)
    assert state is not None
    tell.say(f"{state.command} (pid {state.pid}) asks: {state.prompt!r}")
    tell.figure("password prompt known", asked.duration, remark="from the start of the command")

    with tell.timed("captured while it asks, and forked"):
        snapshot = session.snapshot(f"{name}-asks")
        fork = snapshot.fork(1, f"{name}-asked")[0]
    answered = fork.answer(f"{password}\n")
    said = answered.text.split("\n")[-2:-1]
    tell.check(answered.ok and said == [message], "answered in the fork, it opens the file", answered)
    tell.check(password not in answered.text, "and the password is not in the output", answered.text)

    now = session.shell().observed
    still = now is not None and (now.pid, now.detail, now.since) == (state.pid, "password", state.since)
    tell.check(still, "meanwhile the same process of the parent still waits for it", now)
    session.interrupt()
    done = session.join(asked.command_id, wait=True, patience=PATIENCE_SECONDS)
    tell.check(not done.running, "interrupted there, its shell is free again", done)
