"""BuildKit's lines become a few for people, and an error with the end of the output, whatever the version."""

from __future__ import annotations

from holdfast.images.buildlog import TAIL_LINES, BuildKitLog

# As the command of Docker 20.10 writes it.
OLD = """\
#1 [internal] load build definition from Dockerfile
#1 sha256:debe6062cbce969c3b2f74355e73b743e33657727dc2ea68fd947a08e498f52b
#1 transferring dockerfile: 192B done
#1 DONE 0.0s

#4 [t 1/3] FROM registry.example/debian:13
#4 DONE 0.0s
#6 [t 2/3] COPY a /a
#6 DONE 0.1s
#7 [t 3/3] RUN echo one;    exit 7
#7 0.992 one
#7 1.2 \x1b[31mtwo\x1b[0m
#7 [t 3/3] RUN echo one;    exit 7
#7 ERROR: executor failed running [/bin/sh -c echo one; exit 7]: exit code: 7
------
 > [t 3/3] RUN echo one; exit 7:
#7 0.992 one
------
executor failed running [/bin/sh -c echo one; exit 7]: exit code: 7
"""
# As buildx writes it.
NEW = """\
#5 [2/2] RUN exit 7
#5 ERROR: process "/bin/sh -c exit 7" did not complete successfully: exit code: 7
------
 > [2/2] RUN exit 7:
------
Dockerfile:2
--------------------
   1 |     FROM debian
   2 | >>> RUN exit 7
   3 |
--------------------
ERROR: failed to solve: process "/bin/sh -c exit 7" did not complete successfully: exit code: 7

View build details: somewhere
"""


def fed(text: str) -> tuple[BuildKitLog, list[str]]:
    log = BuildKitLog()
    return log, [shown for line in text.splitlines() for shown in log.feed(line)]


def test_each_step_is_shown_once() -> None:
    """BuildKit's internal steps are left out."""
    log, shown = fed(OLD)
    assert shown == [
        "step t 1/3: FROM registry.example/debian:13",
        "step t 2/3: COPY a /a",
        "step t 3/3: RUN echo one; exit 7",
    ]
    assert log.error == "executor failed running [/bin/sh -c echo one; exit 7]: exit code: 7"
    assert log.tail().splitlines() == ["one", "two", "one"]


def test_newer_versions_name_the_error() -> None:
    log, shown = fed(NEW)
    assert shown == ["step 2/2: RUN exit 7"]
    assert log.error == 'process "/bin/sh -c exit 7" did not complete successfully: exit code: 7'


def test_the_builders_own_lines_are_left_out() -> None:
    """The cause remains."""
    said = (
        "failed to solve with frontend dockerfile.v0: failed to create LLB definition: "
        "dockerfile parse error line 2: unknown instruction: COPPY"
    )
    assert fed(said)[0].error == "dockerfile parse error line 2: unknown instruction: COPPY"
    gone = 'failed to compute cache key: "/nonesuch" not found: not found'
    assert fed(gone)[0].error == gone


def test_only_the_end_of_the_output_is_kept() -> None:
    log, _ = fed("\n".join(f"#7 1.0 line {number}" for number in range(TAIL_LINES + 5)))
    assert log.tail().splitlines() == [f"line {number}" for number in range(5, TAIL_LINES + 5)]
    assert log.error == ""


def test_the_number_of_the_step_is_known() -> None:
    """From the first line of a step on, whatever its output; nothing is claimed before."""
    log = BuildKitLog()
    before = log.steps
    assert not before
    for line in OLD.splitlines():
        log.feed(line)
    assert log.steps == (3, 3)
