"""A session in which programs are started all the time can be captured."""

from __future__ import annotations

import pytest

from holdfast.runtime.api.session import Session

# Half of the time it waits for a child of vfork, as compilers do on a busy machine.
STARTER = r"""
#include <sys/wait.h>
#include <unistd.h>
int main(void) {
    for (;;) {
        pid_t child = vfork();
        if (child == 0) {
            usleep(40000);
            _exit(0);
        }
        waitpid(child, 0, 0);
        usleep(40000);
    }
}
"""


@pytest.mark.thorough
def test_children_of_vfork_do_not_prevent_a_capture(shared: Session) -> None:
    """At any point: five of six captures used to be refused, after ten seconds in which nothing ran."""
    built = shared.exec(f"cc -w -x c -o /srv/starter - <<'END'\n{STARTER}\nEND", timeout=120)
    assert built.ok, built.text
    starter = shared.detach("exec /srv/starter")
    for _ in range(3):
        assert shared.snapshot().kind == "live"
    assert starter.info().running
