"""`python -m bench.demo`: run the main job on this machine; leave nothing behind."""

from __future__ import annotations

import secrets
import signal
import sys

from bench.demo.narrator import CheckFailed, Narrator
from bench.demo.story import STEPS, Story
from holdfast import Holdfast, HoldfastError


def main() -> int:
    tell = Narrator(STEPS)
    name = f"demo-{secrets.token_hex(3)}"
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        with Holdfast(progress=tell.hint) as holdfast:
            try:
                Story(holdfast, name, tell).run()
            finally:
                # An interrupt from here on would leave something behind.
                for number in (signal.SIGINT, signal.SIGTERM):
                    signal.signal(number, signal.SIG_IGN)
                tell.heading("Clean up")
                _clean_up(holdfast, name, tell)
    except KeyboardInterrupt:
        print("\ndemo: stopped; nothing of it remains", file=sys.stderr)
        return 130
    except CheckFailed as failure:
        print(f"\ndemo: failed: {failure}", file=sys.stderr)
        return 1
    except HoldfastError as error:
        print(f"\ndemo: failed: {error}{f' ({error.hint})' if error.hint else ''}", file=sys.stderr)
        return 1
    tell.table()
    return 0


def _clean_up(holdfast: Holdfast, name: str, tell: Narrator) -> None:
    """Remove everything made, found by its name: an interrupt may have come before we knew of it."""
    sessions = [one for one in holdfast.sessions() if one.name == name or one.name.startswith(f"{name}-")]
    snapshots = [one for one in holdfast.snapshots() if one.label in (name, f"{name}-asks")]
    for session in sessions:
        session.remove()
    for snapshot in reversed(snapshots):
        snapshot.remove()
    tell.say(f"removed: sessions {len(sessions)}, snapshots {len(snapshots)}")


def _interrupt(_signal: int, _frame: object) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
