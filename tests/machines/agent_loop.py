"""An agent's loop over a URL, which knows nothing of the cluster behind it."""

from __future__ import annotations

import threading
import time

from tests.machines.nodes import Lab

from holdfast.errors import HoldfastError

STEP = 'n=$((n+1)); echo $n | tee /srv/step; [ -n "$began" ] || began=$RANDOM$RANDOM'


class Agent(threading.Thread):
    """The loop of an agent: a command after the other over a URL, whatever happens to machines.

    It knows nothing of the cluster. `results` are the numbers that its commands have returned, with times.
    """

    def __init__(self, lab: Lab, url: str = "", name: str = "work") -> None:
        super().__init__(daemon=True)
        self._lab, self._url, self._session = lab, url, name
        self.results: list[tuple[float, int]] = []
        self.errors: list[str] = []
        self.ends = threading.Event()

    def run(self) -> None:
        while not self.ends.is_set():
            try:
                with self._lab.client(self._url) as hf:
                    work = hf.session(self._session)
                    while not self.ends.is_set():
                        done = work.exec(STEP, timeout=30, patience=15)
                        self.results.append((time.monotonic(), int(done.text)))
                        time.sleep(0.3)
            except (HoldfastError, OSError, ValueError) as error:
                self.errors.append(f"{type(error).__name__}: {error}")
                time.sleep(0.5)
