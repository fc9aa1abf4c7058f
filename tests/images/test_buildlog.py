"""A build's events become a few lines for people, and an error keeps the end of the output."""

from holdfast.images.buildlog import PACKAGES_PER_LINE, TAIL_LINES, BuildLog


def test_steps_that_take_time_are_shown() -> None:
    """A step that runs something is a line; one that only sets something is not."""
    log = BuildLog()

    assert log.feed({"stream": "Step 2/9 : ENV A=b\n"}) == []
    assert log.feed({"stream": "Step 3/9 : RUN set -eu;     make\n"}) == ["step 3/9: RUN set -eu; make"]
    [cut] = log.feed({"stream": f"Step 4/9 : RUN {'x' * 100}\n"})
    assert cut == f"step 4/9: RUN {'x' * 65}…"


def test_packages_are_counted() -> None:
    """A long installation shows how far it is."""
    log = BuildLog()
    planned = log.feed({"stream": "0 upgraded, 90 newly installed, 0 to remove and 0 not upgraded.\n"})
    set_up = [line for _ in range(90) for line in log.feed({"stream": "Setting up x (1) ...\n"})]

    assert planned == ["installing 90 packages"]
    assert set_up == [f"{n} of 90 packages set up" for n in (PACKAGES_PER_LINE, 2 * PACKAGES_PER_LINE)]


def test_other_output_is_kept_for_the_case_of_failure() -> None:
    """Output that is not shown is available when the build fails, its last lines at least."""
    log = BuildLog()
    for number in range(TAIL_LINES + 5):
        assert log.feed({"stream": f"line {number}\n"}) == []
    log.feed({"error": "exit code 1\n", "errorDetail": {}})

    assert log.error == "exit code 1"
    assert log.tail().splitlines() == [f"line {number}" for number in range(5, TAIL_LINES + 5)]


def test_the_builders_own_lines_are_not_kept() -> None:
    """After a failure the output of the failed step is shown, without color."""
    log = BuildLog()
    for text in ("Step 1/2 : RUN cc a.c\n", " ---> Running in 0123\n", "\x1b[91mcc1: fatal error\n\x1b[0m"):
        log.feed({"stream": text})
    log.feed({"stream": "Removing intermediate container 0123\n"})

    assert log.tail() == "cc1: fatal error"


def test_events_without_text_are_ignored() -> None:
    """Identifiers of layers and progress of pulls are skipped."""
    assert BuildLog().feed({"aux": {"ID": "sha256:0"}}) == []


def test_images_of_steps_are_listed_without_the_base() -> None:
    """In their order, whether made or found from an earlier attempt; lines that steps write are not ids."""
    log = BuildLog()
    lines = [
        *("Step 1/5 : FROM base AS first", " ---> aaaaaaaaaaaa", "Step 2/5 : COPY a /a", " ---> Using cache"),
        *(" ---> bbbbbbbbbbbb", "Step 3/5 : FROM base", " ---> aaaaaaaaaaaa", "Step 4/5 : RUN make"),
        *(" ---> Running in dddddddddddd", " ---> out of memory", " ---> cccccccccccc", "Step 5/5 : RUN no"),
    ]
    for line in lines:
        log.feed({"stream": f"{line}\n"})

    assert log.made == ["bbbbbbbbbbbb", "cccccccccccc"]


def test_builds_of_others_show_every_step_and_tell_the_image() -> None:
    """The id of the last step is the image's id."""
    log = BuildLog(every_step=True)

    assert log.feed({"stream": "Step 2/9 : COPY a /a\n"}) == ["step 2/9: COPY a /a"]
    for identity in ("sha256:1", "sha256:2"):
        log.feed({"aux": {"ID": identity}})
    assert log.image == "sha256:2"


def test_the_number_of_the_step_is_known() -> None:
    """Of every step, also of one that is not shown."""
    log = BuildLog()
    before = log.steps
    assert not before
    log.feed({"stream": "Step 2/7 : COPY a /a\n"})
    assert log.steps == (2, 7)
