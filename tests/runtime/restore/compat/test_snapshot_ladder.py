"""The choice of a rung, from the request and the possible rungs."""

from __future__ import annotations

import pytest

from holdfast.errors import InvalidArgument, LiveUnsupported
from holdfast.runtime.restore.compat.snapshot_ladder import RUNGS, best, choose_rung
from holdfast.snapshots.fitness import Ladder, Name, Rung

VERBS = ("restore", "thaw")


def ladder(*possible: Name, live: bool = True) -> Ladder:
    """Return rungs of which some are possible; `live`: of a snapshot with processes."""
    return Ladder(
        rungs=[
            Rung(
                name=name,
                possible=name in possible,
                reasons=[] if name in possible else [f"no {name}"],
                lost=[f"what {name} lacks"],
            )
            for name in RUNGS
        ],
        live=live,
    )


ALL = ladder("live", "commands", "files")
NOT_LIVE = ladder("commands", "files")
ONLY_FILES = ladder("files")
NOTHING = ladder()
FILESYSTEM = ladder("commands", "files", live=False)
UNRECORDED = ladder("files", live=False)


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize(
    ("found", "as_", "require", "rung"),
    [
        (ALL, None, None, "live"),
        (ALL, None, "live", "live"),
        (ALL, None, "commands", "live"),
        (ALL, None, "files", "live"),
        (ALL, "live", "files", "live"),
        (ALL, "commands", None, "commands"),
        (ALL, "commands", "files", "commands"),
        (ALL, "files", None, "files"),
        (ALL, "files", "files", "files"),
        (NOT_LIVE, None, "commands", "commands"),
        (NOT_LIVE, None, "files", "commands"),
        (NOT_LIVE, "files", None, "files"),
        (ONLY_FILES, None, "files", "files"),
        (ONLY_FILES, "files", None, "files"),
        (FILESYSTEM, None, None, "commands"),
        (FILESYSTEM, None, "commands", "commands"),
        (FILESYSTEM, None, "files", "commands"),
        (UNRECORDED, None, None, "files"),
        (UNRECORDED, None, "files", "files"),
    ],
)
def test_the_best_or_the_requested_rung_is_taken(
    found: Ladder, as_: Name | None, require: Name | None, rung: Name, verb: str
) -> None:
    """Never an impossible one, never less than required or, without a request, than was captured."""
    assert choose_rung(found, as_, require, verb=verb, source="x") == rung


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize(
    ("found", "as_", "require", "missing", "possible"),
    [
        (NOT_LIVE, None, None, "live", "commands"),
        (NOT_LIVE, None, "live", "live", "commands"),
        (NOT_LIVE, "live", None, "live", "commands"),
        (NOT_LIVE, "live", "commands", "live", "commands"),
        (ONLY_FILES, None, None, "live", "files"),
        (ONLY_FILES, None, "commands", "commands", "files"),
        (ONLY_FILES, "commands", None, "commands", "files"),
        (ONLY_FILES, "commands", "files", "commands", "files"),
        (FILESYSTEM, None, "live", "live", "commands"),
        (UNRECORDED, None, "commands", "commands", "files"),
        (NOTHING, None, None, "live", None),
        (NOTHING, None, "files", "files", None),
        (NOTHING, "files", None, "files", None),
    ],
)
def test_less_than_requested_is_refused(
    found: Ladder, as_: Name | None, require: Name | None, missing: Name, possible: Name | None, verb: str
) -> None:
    """With the reason, and the command for the possible rung and its losses."""
    with pytest.raises(LiveUnsupported) as error:
        choose_rung(found, as_, require, verb=verb, source="x.holdfast")
    assert str(error.value) == f"cannot {verb} x.holdfast as {missing}: no {missing}"
    assert error.value.findings == ({"rung": missing, "reason": f"no {missing}"},)
    assert error.value.hint == (
        f"`holdfast {verb} x.holdfast --as {possible}` is possible; without what {possible} lacks"
        if possible
        else "no part of it can be restored on this machine"
    )


@pytest.mark.parametrize(("as_", "require"), [("files", "live"), ("files", "commands"), ("commands", "live")])
def test_an_unsatisfiable_request_is_invalid(as_: Name, require: Name) -> None:
    """Whichever rungs are possible."""
    with pytest.raises(InvalidArgument, match=f"cannot require {require} and thaw as {as_}"):
        choose_rung(ALL, as_, require, verb="thaw", source="x")


@pytest.mark.parametrize(
    ("found", "least", "rung"),
    [
        (ALL, "files", "live"),
        (ladder("live", "files"), "commands", "live"),
        (NOT_LIVE, "live", None),
        (ONLY_FILES, "commands", None),
        (NOTHING, "files", None),
    ],
)
def test_a_better_rung_satisfies_a_lower_requirement(found: Ladder, least: Name, rung: Name | None) -> None:
    """`fits --require commands` accepts a snapshot that can run live, though no commands were recorded."""
    assert best(found, least) == rung
