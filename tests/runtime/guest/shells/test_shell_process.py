"""The delay before a shell is started again, without shells."""

from holdfast.runtime.guest.shells.shell_process import MAX_DELAY, Respawn


def test_a_shell_that_lived_is_followed_at_once() -> None:
    respawn = Respawn()
    for start in range(100):
        respawn.starts(start * 10.0)
        respawn.ended(start * 10.0 + 5, "how")
        assert respawn.delay == 0


def test_hasty_ends_delay_the_next_start_more_and_more_up_to_a_limit() -> None:
    """Those that could not be started count alike; a prompt is the proof that one works."""
    respawn, delays = Respawn(), []
    for turn in range(10):
        respawn.starts(float(turn))
        respawn.failed("why") if turn == 1 else respawn.ended(turn + 0.1, "how")
        delays.append(respawn.delay)

    assert delays[:3] == [0, 0, 0.8]
    assert delays == sorted(delays)
    assert delays[-1] == MAX_DELAY
    respawn.works()
    assert respawn.delay == 0


def test_shells_that_end_as_they_start_are_explained() -> None:
    """With how the last one ended, and how often, once the next one is delayed."""
    respawn = Respawn()
    for _ in range(2):
        respawn.ended(0.1, "`~/.bashrc` ended the shell with exit code 3")
    assert respawn.trouble == ""
    respawn.ended(0.1, "`~/.bashrc` ended the shell with exit code 3")
    assert respawn.trouble == "`~/.bashrc` ended the shell with exit code 3, 3 times"
    respawn.works()
    assert respawn.trouble == ""
