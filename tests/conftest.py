"""The suite behaves the same however it was started: `make test &`, nohup and services ignore signals."""

from __future__ import annotations

import os
import signal

# What a test starts would inherit it, and what it interrupts would go on.
signal.signal(signal.SIGINT, signal.default_int_handler)
for _number in (signal.SIGQUIT, signal.SIGHUP, signal.SIGCHLD):
    signal.signal(_number, signal.SIG_DFL)
signal.pthread_sigmask(signal.SIG_SETMASK, ())
# Each of the many commands that tests start would compile the whole package anew.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
