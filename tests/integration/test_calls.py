"""System calls that a capture interrupts: programs do not notice, in the parent and in copies."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.runtime.api.session import Session

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


@pytest.mark.thorough
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


# Waits for something that never comes, briefly each time, in threads other than the first: by poll(2), which
# fails only if a handler of a signal runs, and there is none.
POLLS = r"""
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const char *report;
static volatile long rounds;

static void *wait_in_vain(void *unused)
{
    for (;; rounds++)
        if (poll(NULL, 0, 300) < 0) {
            FILE *file = fopen(report, "a");
            fprintf(file, "round %ld: %s\n", rounds, strerror(errno));
            fclose(file);
        }
    return unused;
}

int main(int count, char **names)
{
    pthread_t threads[4];
    (void)count;
    report = names[1];
    for (int each = 0; each < 4; each++)
        pthread_create(&threads[each], NULL, wait_in_vain, NULL);
    for (long before;;) {
        before = rounds;
        while (rounds < before + 8)
            usleep(10000);
        FILE *file = fopen(names[2], "a");
        fputs("went on\n", file);
        fclose(file);
    }
}
"""


@pytest.mark.thorough
def test_a_short_poll_does_not_fail_in_a_copy(shared: Session) -> None:
    """It waits again: programs without signal handlers do not expect a failure."""
    built = shared.exec(
        f"cat > polls.c <<'END'\n{POLLS}\nEND\n"
        "gcc -O2 -o polls polls.c -lpthread && { ./polls failed on & until [ -s on ]; do sleep 0.1; done; }"
    )
    assert built.exit_code == 0, built.text
    copy = shared.snapshot().restore()
    copy.exec(": > on")
    for session in (shared, copy):
        assert session.exec("until [ -s on ]; do sleep 0.1; done; cat failed 2>/dev/null").text == ""
    shared.exec("kill %?polls")


def test_a_program_whose_first_code_is_shared_memory_is_captured(shared: Session) -> None:
    """CRIU cannot write its calls there; elsewhere they disturb no one. It counts on, here and in a copy."""
    source = (Path(__file__).parents[1] / "inside" / "shared_code.c").read_text()
    built = shared.exec(
        f"cat > shared_code.c <<'END'\n{source}\nEND\n"
        "gcc -O2 -pthread -o shared_code shared_code.c && "
        "{ ./shared_code sum & until [ -s sum ]; do sleep 0.1; done; }"
    )
    assert built.exit_code == 0, built.text
    counts = 'before=$(cat sum); sleep 1; after=$(cat sum); [ "$after" -gt "$before" ] && jobs -rp | wc -l'

    copy = shared.snapshot().restore()

    assert [each.exec(counts).text for each in (copy, shared)] == ["1\n"] * 2
    shared.exec("kill %1")
