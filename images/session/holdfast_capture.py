#!/usr/bin/python3 -I
"""The command `holdfast-capture` in a session, for programs in any language that request a capture.

    case "$(holdfast-capture --reason 'before the migration')" in
        resumed*)  ...  # "resumed SNAPSHOT REFERENCE"
        restored*) ...  # in every copy: "restored SNAPSHOT"
    esac

Exit codes: 0 resumed, 10 restored, 11 restored in a copy of a snapshot that was not taken for this call,
1 no snapshot was taken, 69 no process on the host serves captures. It needs only `holdfast_session.py`.
"""

from __future__ import annotations

import argparse
import json
import sys

import holdfast_session

RESUMED, FAILED, RESTORED, RESTORED_BY_CHANCE, UNAVAILABLE = 0, 1, 10, 11, 69


def main() -> int:
    """Request a capture, wait for it, and print the outcome."""
    parser = argparse.ArgumentParser(
        "holdfast-capture",
        description="Capture this session. Returns twice: `resumed` here, `restored` in every copy.",
        epilog="Exit codes: 0 resumed, 10 restored, 11 restored, but of a snapshot taken for another reason, "
        "1 no snapshot was taken, 69 no process on the host serves captures.",
    )
    parser.add_argument("--label", help="a name for the snapshot")
    parser.add_argument("--reason", help="why, for people")
    parser.add_argument(
        "--failed", metavar="WHERE", help="the failure behind the request, if any: file:line, or a name"
    )
    parser.add_argument("--timeout", type=float, default=900.0, metavar="SECONDS")
    parser.add_argument("--json", action="store_true", help="one JSON object instead of words")
    given = parser.parse_args()
    failure = None
    if given.failed is not None:
        failure = {"reason": "failed", "where": given.failed, "message": given.reason or ""}
    try:
        done = holdfast_session.capture(given.label, given.reason, failure, given.timeout)
    except holdfast_session.CaptureFailed as error:
        sys.stderr.write(f"holdfast-capture: {error}\n")
        return UNAVAILABLE if isinstance(error, holdfast_session.CaptureUnavailable) else FAILED
    if given.json:
        sys.stdout.write(json.dumps(done._asdict()) + "\n")
    else:
        sys.stdout.write(" ".join(word for word in done[:3] if word) + "\n")
    if done.kind == "resumed":
        return RESUMED
    return RESTORED if done.own else RESTORED_BY_CHANCE


if __name__ == "__main__":
    sys.exit(main())
