"""Lets session `work` reach the given place, and is killed when the rules are in force."""

from __future__ import annotations

import os
import signal
import sys
from typing import Any

from holdfast.runtime.api.controller import Holdfast
from holdfast.runtime.egress.close_network import Closing

if __name__ == "__main__":
    real = Closing.change

    def dying(*args: Any) -> None:
        real(*args)
        os.kill(os.getpid(), signal.SIGKILL)

    Closing.change = dying  # type: ignore[method-assign, assignment]
    Holdfast().session("work").allow(sys.argv[1])
