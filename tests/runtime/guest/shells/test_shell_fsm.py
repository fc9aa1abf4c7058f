import pytest

from holdfast.runtime.guest.shells.marks import Mark, MarkKind
from holdfast.runtime.guest.shells.shell_fsm import (
    BUSY_PATIENCE,
    CANCELS,
    EXTENSIONS,
    GRACE,
    KEPT_COMMANDS,
    LAST_RESORT,
    OFFERS,
    PROMPT_PATIENCE,
    Exec,
    KnownCommands,
    Phase,
    ShellAction,
    ShellActivity,
    ShellBusy,
    ShellMachine,
)


class Play:
    """A machine, a clock and an offset that advance."""

    def __init__(self) -> None:
        self.machine = ShellMachine()
        self.now = 0.0
        self.offset = 0

    def mark(self, *kinds: MarkKind, status: int = 0, serial: int = 0) -> list[ShellAction]:
        actions = []
        for kind in kinds:
            self.offset += 10
            actions += self.machine.mark(Mark(kind, self.offset, self.offset + 5, status, serial), self.now)
        return actions

    def prompt(self) -> list[ShellAction]:
        return self.mark(MarkKind.PROMPT, MarkKind.READY)

    def submit(self, serial: int = 1, timeout: float | None = None) -> tuple[Exec, list[ShellAction]]:
        request = Exec(f"exec{serial}", serial, timeout)
        return request, self.machine.submit(request, self.now)

    def running(self, timeout: float | None = None) -> Exec:
        self.prompt()
        request, _ = self.submit(1, timeout)
        self.mark(MarkKind.ACCEPTED, serial=1)
        return request

    def wake(self, *, at_work: bool = False) -> list[ShellAction]:
        assert self.machine.wake_at is not None
        self.now = self.machine.wake_at
        return self.machine.tick(self.now, lambda: at_work)


def test_a_command_ends_where_the_shell_says_it_was_executed() -> None:
    """Output lies between the marks of acceptance and execution; the prompt is not part of it."""
    play = Play()
    play.prompt()
    request, actions = play.submit()
    assert actions == [ShellAction.OFFER]
    play.mark(MarkKind.ACCEPTED, serial=1)
    assert (request.phase, request.start_offset) == (Phase.RUNNING, 35)
    play.now = 3.0
    play.mark(MarkKind.EXECUTED, status=7, serial=1)
    assert (request.phase, request.exit_code, request.end_offset) == (Phase.FINISHED, 7, 40)
    assert request.duration == 3.0
    assert play.machine.state is ShellActivity.SETTLING


def test_a_command_ends_at_the_latest_with_the_next_prompt() -> None:
    """A shell that replaced itself never reports that it executed; its prompt ends the command."""
    play = Play()
    request = play.running()
    play.mark(MarkKind.DONE, status=3)
    assert (request.phase, request.exit_code) == (Phase.FINISHED, 3)


def test_a_command_waits_for_an_imminent_prompt() -> None:
    """Between two commands a request is offered as soon as the prompt is ready."""
    play = Play()
    request, actions = play.submit()
    assert (request.phase, actions) == (Phase.WAITING, [])
    assert play.prompt() == [ShellAction.OFFER]


def test_a_prompt_that_does_not_come_refuses_the_command() -> None:
    """A command does not wait forever for a prompt."""
    play = Play()
    request, _ = play.submit()
    assert play.machine.wake_at == PROMPT_PATIENCE
    assert play.wake() == []
    assert request.phase is Phase.REFUSED
    assert play.machine.current is None


def test_one_command_at_a_time() -> None:
    """A second command is refused, with the holder of the shell."""
    play = Play()
    play.running()
    with pytest.raises(ShellBusy) as caught:
        play.submit(2)
    assert caught.value.holder == "exec1"


def test_a_persons_command_holds_the_shell() -> None:
    """While a typed command runs others are refused after a moment; afterwards they are not."""
    play = Play()
    play.prompt()
    play.mark(MarkKind.ACCEPTED)
    request, actions = play.submit()
    assert (play.machine.wake_at, actions) == (BUSY_PATIENCE, [])
    play.wake()
    assert request.phase is Phase.REFUSED
    play.mark(MarkKind.DONE)
    play.prompt()
    assert play.submit()[1] == [ShellAction.OFFER]


def test_the_faster_person_wins() -> None:
    """If a typed line is accepted first, the offer is withdrawn; the command waits a moment."""
    play = Play()
    play.prompt()
    request, _ = play.submit()
    assert play.mark(MarkKind.ACCEPTED) == [ShellAction.WITHDRAW]
    play.machine.withdrawn(gone=False)
    assert request.phase is Phase.WAITING
    play.mark(MarkKind.DONE)
    assert play.prompt() == [ShellAction.OFFER]


def test_an_offer_that_was_taken_meanwhile_is_not_refused() -> None:
    """An offer that cannot be withdrawn is about to run, and its result will be reported."""
    play = Play()
    play.prompt()
    request, _ = play.submit()
    assert play.mark(MarkKind.ACCEPTED) == [ShellAction.WITHDRAW]
    play.machine.withdrawn(gone=True)
    play.mark(MarkKind.DONE, MarkKind.PROMPT, MarkKind.READY)
    play.mark(MarkKind.ACCEPTED, serial=1)
    play.mark(MarkKind.EXECUTED, serial=1)
    assert request.phase is Phase.FINISHED


def test_an_eaten_key_is_sent_again_and_then_given_up() -> None:
    """A prompt that eats the key gets it again; in the end the offer is withdrawn."""
    play = Play()
    play.prompt()
    request, _ = play.submit()
    assert [play.wake() for _ in range(OFFERS)] == [[ShellAction.NUDGE]] * (OFFERS - 1) + [
        [ShellAction.WITHDRAW]
    ]
    play.machine.withdrawn(gone=False)
    assert request.phase is Phase.REFUSED


def test_an_unfinished_command_is_cancelled_until_it_is_over() -> None:
    """The shell can miss the first interrupt, but not twenty; after that the shell itself is the problem."""
    play = Play()
    request = play.running()
    play.mark(MarkKind.MORE)

    assert [play.wake() for _ in range(CANCELS - 1)] == [[ShellAction.CANCEL_INPUT]] * (CANCELS - 1)
    assert not request.timed_out
    assert play.wake() == [ShellAction.INTERRUPT]
    play.mark(MarkKind.DONE, status=130)
    assert (request.phase, request.exit_code, request.incomplete) == (Phase.FINISHED, 2, True)
    assert play.machine.wake_at is None


def test_an_incomplete_command_is_cancelled() -> None:
    """When the shell wants more, its input is cancelled; the result reports that without a prompt in it."""
    play = Play()
    request = play.running()
    assert play.mark(MarkKind.MORE) == [ShellAction.CANCEL_INPUT]
    asked_at = play.offset
    assert play.mark(MarkKind.MORE) == []
    play.mark(MarkKind.DONE, status=130)
    assert request.incomplete
    assert (request.exit_code, request.end_offset) == (2, asked_at)


def test_the_end_of_the_shell_ends_the_command() -> None:
    """`exit 3` in a command is its result, which also reports the end of the shell."""
    play = Play()
    request = play.running()
    play.machine.exited(99, play.now, exit_code=3, signal=None)
    assert request.over
    assert request.shell_exited
    assert (request.exit_code, request.end_offset) == (3, 99)
    assert play.machine.state is ShellActivity.STARTING


def test_a_command_that_was_not_taken_survives_the_shell() -> None:
    """A shell that ends before it took the command leaves it to the next shell."""
    play = Play()
    play.prompt()
    request, _ = play.submit()
    assert play.machine.exited(50, play.now, exit_code=0, signal=None) == [ShellAction.WITHDRAW]
    play.machine.withdrawn(gone=False)
    assert request.phase is Phase.WAITING
    assert play.prompt() == [ShellAction.OFFER]


def test_a_shell_killed_with_the_command_in_hand_ends_it() -> None:
    """A command that was taken and never began is over, without an exit code: it is never run twice."""
    play = Play()
    play.prompt()
    request, _ = play.submit()
    play.machine.exited(50, play.now, exit_code=None, signal=9)
    play.machine.withdrawn(gone=True)
    assert request.shell_exited
    assert (request.phase, request.exit_code, request.signal) == (Phase.FINISHED, None, 9)


def test_a_timeout_escalates_from_interrupt_to_kill() -> None:
    """SIGINT, SIGTERM, SIGKILL, and the shell only when nothing else helped."""
    play = Play()
    request = play.running(timeout=5.0)
    assert play.machine.wake_at == 5.0
    steps: list[tuple[float, list[ShellAction]]] = []
    while not steps or steps[-1][1] != [ShellAction.KILL_SHELL]:
        actions = play.wake()
        steps.append((play.now - 5.0, actions))
    assert steps[:3] == [
        (0.0, [ShellAction.INTERRUPT]),
        (GRACE, [ShellAction.TERMINATE]),
        (2 * GRACE, [ShellAction.KILL]),
    ]
    assert steps[-1][0] >= LAST_RESORT
    assert request.timed_out


def test_a_command_that_heeds_the_interrupt_ends_the_escalation() -> None:
    """Once the command is over nothing else is signalled."""
    play = Play()
    request = play.running(timeout=5.0)
    play.wake()
    play.mark(MarkKind.EXECUTED, status=130, serial=1)
    assert request.timed_out
    assert (request.exit_code, play.machine.wake_at) == (130, None)
    assert play.machine.tick(100.0) == []


def test_ctrl_c_at_the_prompt_changes_nothing() -> None:
    """A line that was cancelled leaves the shell at its prompt."""
    play = Play()
    play.prompt()
    play.prompt()
    assert play.machine.state is ShellActivity.PROMPT


def test_the_end_of_an_older_command_does_not_end_a_newer_one() -> None:
    """A mark of execution counts for the command whose number it carries."""
    play = Play()
    request = play.running()
    play.mark(MarkKind.EXECUTED, serial=77)
    assert request.phase is Phase.RUNNING


def test_a_shell_that_is_at_work_is_waited_for_longer() -> None:
    """A prompt can take long where there is much to do; one that never comes is not waited for."""
    play = Play()
    request, _ = play.submit()
    for _ in range(EXTENSIONS):
        assert play.wake(at_work=True) == []
        assert request.phase is Phase.WAITING
    play.wake(at_work=True)
    assert request.phase is Phase.REFUSED

    play = Play()
    request, _ = play.submit()
    play.wake(at_work=True)
    assert play.prompt() == [ShellAction.OFFER]
    for _ in range(OFFERS + 3):
        assert play.wake(at_work=True) == [ShellAction.NUDGE]
    assert play.wake() == [ShellAction.WITHDRAW]


def test_a_persons_command_does_not_get_extra_time_for_working() -> None:
    """It would keep working for as long as it likes."""
    play = Play()
    play.prompt()
    play.mark(MarkKind.ACCEPTED)
    request, _ = play.submit()
    play.wake(at_work=True)
    assert request.phase is Phase.REFUSED


def test_a_command_that_could_not_be_offered_is_refused_with_the_reason() -> None:
    """The shell is free again."""
    play = Play()
    play.prompt()
    request, _ = play.submit()
    play.machine.refuse("no room")
    assert (request.phase, request.refusal) == (Phase.REFUSED, "no room")
    assert play.submit(2)[1] == [ShellAction.OFFER]


@pytest.mark.parametrize("kind", [MarkKind.PROMPT, MarkKind.READY])
def test_a_command_whose_end_was_lost_ends_with_the_prompt(kind: MarkKind) -> None:
    """Ctrl-C makes a terminal drop output, marks included; the next prompt repeats the status."""
    play = Play()
    request = play.running()
    play.mark(kind, status=130)
    assert (request.phase, request.exit_code) == (Phase.FINISHED, 130)


def test_a_command_whose_start_was_lost_still_ends() -> None:
    """It was offered, and the shell reports that it executed it."""
    play = Play()
    play.prompt()
    request, _ = play.submit(serial=5)
    play.mark(MarkKind.EXECUTED, status=130, serial=4)
    assert request.phase is Phase.OFFERED
    play.mark(MarkKind.EXECUTED, status=130, serial=5)
    assert (request.phase, request.exit_code) == (Phase.FINISHED, 130)


def test_the_oldest_is_forgotten_and_only_the_newest_has_its_text() -> None:
    known = KnownCommands()
    commands = [Exec(str(number), number, None) for number in range(KEPT_COMMANDS + 1)]
    for command in commands:
        known.add(command, b"text %d" % command.serial)

    assert known.find("0") is None
    assert known.find("1") is commands[1]
    assert known.text_of(commands[-1]) == b"text %d" % KEPT_COMMANDS
    assert known.text_of(commands[1]) is None


def test_the_id_of_a_refused_command_can_be_used_again() -> None:
    known = KnownCommands()
    known.add(Exec("a", 1, None), b"")
    known.forget("a")
    known.forget("a")
    assert known.find("a") is None
