"""System calls that a capture interrupts: programs do not notice, in the parent and in copies."""

from __future__ import annotations

import pytest

from holdfast.runtime.session import Session

pytestmark = pytest.mark.engine

# Waits for children that end at once, as fast as it can: the signal of their end comes while it waits.
PROGRAM = r"""
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int count, char **names)
{
    (void)count;
    for (long rounds = 1;; rounds++) {
        pid_t child = fork();
        if (child == 0)
            _exit(3);
        int status = 0;
        if (waitpid(child, &status, 0) != child || WEXITSTATUS(status) != 3) {
            FILE *report = fopen(names[1], "a");
            fprintf(report, "round %ld: %s\n", rounds, strerror(errno));
            fclose(report);
        }
    }
}
"""


def test_waiting_for_a_child_is_not_interrupted(shared: Session) -> None:
    """A signal without a handler interrupts nothing, captured or not."""
    built = shared.exec(
        f"cat > waits.c <<'END'\n{PROGRAM}\nEND\n"
        "gcc -O2 -o waits waits.c && { for n in 1 2 3; do ./waits found & done; }"
    )
    assert built.exit_code == 0, built.text
    shared.snapshot().remove()
    taken = shared.snapshot()
    look = "sleep 0.2; cat found 2>/dev/null; jobs -rp | wc -l"
    assert shared.exec(look).text == "3\n"
    shared.exec("kill %1 %2 %3")  # before there are twice as many
    assert taken.restore().exec(look).text == "3\n"
