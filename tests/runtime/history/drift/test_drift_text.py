import json
from datetime import UTC, datetime

import pytest

from holdfast.errors import InvalidArgument, SnapshotDamaged
from holdfast.runtime.history.drift import baseline, starting_point
from holdfast.runtime.history.drift.authors import Author
from holdfast.runtime.history.drift.baseline import Baseline
from holdfast.runtime.history.drift.changed_paths import FileChange, PathEntry
from holdfast.runtime.history.drift.drift_result import Drift
from holdfast.runtime.history.drift.holdings import Holdings, NamedChange, ProcessChange
from holdfast.runtime.history.drift.packages import Package
from holdfast.runtime.history.drift.starting_point import Point, StartingPoint, TrailSpan
from holdfast.runtime.journal import event_text
from holdfast.runtime.store.entry import Entry as JournalEntry

SITE = "/opt/python/lib/python3.13/site-packages"
TYPICAL = Drift(
    "work",
    StartingPoint("before", 100.0, 40, "abc"),
    200.0,
    files=(
        FileChange("/workspace/app/config.json", "new", 220, by=(43,)),
        FileChange("/workspace/app/server.py", "changed", 4100, by=(41,)),
        FileChange("/workspace/app/util.py", "deleted", by=(41,)),
    ),
    packages=(
        Package("pip", "certifi", None, "2024.2.2", SITE, by=(42,)),
        Package("pip", "idna", None, "3.4", SITE, by=(42,)),
        Package("pip", "requests", None, "2.31.0", SITE, by=(42,)),
        Package("pip", "urllib3", "1.26.5", "2.0.7", SITE, by=(42,)),
    ),
    processes=(
        ProcessChange(412, "node server.js", "new", (3000,), by=(44,)),
        ProcessChange(309, "python3 -m http.server 8000", "deleted", (8000,), ended="exit 0"),
    ),
    shell=(
        NamedChange("directory", "main", "cwd", "changed", "/workspace", "/workspace/app", by=(44,)),
        NamedChange("variable", "main", "MODE", "new", None, "test", exported=True, by=(44,)),
    ),
    kernel=(NamedChange("name", "main", "df", "new", None, "DataFrame 3x4", by=(45,)),),
    authors={
        41: Author(41, "command", "a", "agent", "python3 refactor.py", 1, 2),
        42: Author(42, "command", "b", "agent", "pip install requests", 1, 2),
        43: Author(43, "command", "c", "person:ann", "vim config.json", 1, 2),
        44: Author(44, "command", "d", "agent", "cd app; export MODE=test; node server.js &", 1, 2),
        45: Author(45, "cell", "e", "agent", "df = load()", 1, 2),
        46: Author(46, "cell", "f", "agent", "nothing", 1, 2),
    },
)


def test_a_typical_change_is_a_short_text() -> None:
    """A package with its dependencies, a server and three edits: everything named once, in few words."""
    text = TYPICAL.text()

    assert text.splitlines() == [
        "since before:",
        "+ /workspace/app/config.json 220 B #43",
        "~ /workspace/app/server.py 4.1 kB #41",
        "- /workspace/app/util.py #41",
        "pip: +certifi 2024.2.2, +idna 3.4, +requests 2.31.0, urllib3 1.26.5 -> 2.0.7 #42",
        "+412 node server.js :3000 #44",
        "-309 python3 -m http.server 8000 :8000 exit 0",
        "shell: cwd /workspace -> /workspace/app, +export MODE=test #44",
        "kernel: +df DataFrame 3x4 #45",
        "by #41 agent `python3 refactor.py`; #42 agent `pip install requests`; "
        "#43 person:ann `vim config.json`; #44 agent `cd app; export MODE=test; node server.js &`; "
        "#45 agent `df = load()`",
    ]
    # Tokenizers make about one token of four characters of such text.
    assert len(text) / 4 < 200


def test_no_change_is_reported() -> None:
    """In words."""
    empty = Drift("work", StartingPoint("#12", 1.0, 12), 2.0)

    assert empty.empty
    assert empty.text() == "since #12: nothing changed"


def test_thousands_of_files_stay_few_lines() -> None:
    """However much changed, the text is bounded by the limit."""
    files = tuple(FileChange(f"/w/{n % 50}/{n}", "new", 100) for n in range(5000))
    processes = tuple(ProcessChange(n, "worker", "new") for n in range(500))
    names = tuple(NamedChange("variable", "main", f"V{n}", "new", None, "x") for n in range(500))
    text = Drift("w", StartingPoint("s", 1.0), 2.0, files, processes=processes, shell=names).text()

    assert len(text) < 1500
    assert "+ /w/ 5000 files, 500 kB" in text
    assert "… 488 more processes" in text
    assert "… 488 more" in text


def test_every_file_on_request() -> None:
    """`--files` names each."""
    files = tuple(FileChange(f"/w/{n}", "new", 1) for n in range(100))

    assert len(Drift("w", StartingPoint("s", 1.0), 2.0, files).text(every_file=True).splitlines()) == 101


def test_names_from_the_guest_cannot_move_the_cursor() -> None:
    """Control characters of paths, commands and values do not reach the terminal."""
    evil = "\x1b[2Jx\ny"
    drift = Drift(
        "w",
        StartingPoint(evil, 1.0),
        2.0,
        (FileChange(f"/{evil}", "new", by=(1,)),),
        (Package("pip", evil, None, evil, evil),),
        (ProcessChange(1, evil, "new", ended=evil),),
        (NamedChange("variable", evil, evil, "new", None, evil),),
        authors={1: Author(1, "command", "a", evil, evil, 1, 2)},
        notes=(evil,),
    )
    text = drift.text()

    assert "\x1b" not in text
    assert len(text.splitlines()) == 7


def test_all_of_it_for_programs() -> None:
    """The JSON form has every item, and is JSON."""
    told = json.loads(json.dumps(TYPICAL.as_dict()))

    assert [one["path"] for one in told["files"]] == [one.path for one in TYPICAL.files]
    assert told["packages"][3] == {
        "manager": "pip",
        "name": "urllib3",
        "old": "1.26.5",
        "new": "2.0.7",
        "place": SITE,
        "record": "",
        "replaced": False,
        "at": None,
        "files": 0,
        "by": [42],
    }
    assert told["authors"]["42"]["text"] == "pip install requests"


NOW = datetime(2026, 3, 4, 12, 0, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("10m", -600),
        ("1.5h", -5400),
        ("2 d", -172800),
        ("30s ago", -30),
        ("11:30", -1800),
        ("9:05:10", -10490),
        ("2026-03-04T11:59:00", -60),
        ("2026-03-04T12:59:00+01:00", -60),
        ("2026-03-04", -43200),
    ],
)
def test_times(text: str, seconds: int) -> None:
    """How long ago, a time of today, a date, a point in time."""
    assert starting_point.time_of(text, NOW) == NOW.timestamp() + seconds


@pytest.mark.parametrize("text", ["", "soon", "m10", "25:00:00", "abc123", "10 x", "-5m", "97925245716d"])
def test_malformed_times(text: str) -> None:
    """Names, and ids that read as an age, are not mistaken for times."""
    assert starting_point.time_of(text, NOW) is None


def test_numbers_of_entries() -> None:
    """With or without the sign; the id of a command can be digits alone."""
    texts = ("#12", "12", "x", "", "#", "1" * 30, "097925245716", "#97925245716")
    numbers = [12, 12, None, None, None, None, None, 97925245716]
    assert [starting_point.entry_number(text) for text in texts] == numbers


# A session `a` with snapshots a1 and a2; `b` restored from a1, with b1; `c` restored from b1.
POINTS = starting_point.points_by_id(
    [
        Point("a1", "a1", "a", 10.0),
        Point("a2", "a2", "a", 20.0),
        Point("b1", "b1", "b", 30.0, "a1"),
        Point("old", "old", "a", 5.0, known=False),
    ]
)


def test_the_path_from_a_snapshot_to_now() -> None:
    """In one container from the snapshot, in a restored one from its start, else over the snapshots in
    between."""
    assert starting_point.to_snapshot(POINTS["a1"], "a", None, POINTS) == [TrailSpan("a1", None)]
    assert starting_point.to_snapshot(POINTS["a1"], "b", "a1", POINTS) == [TrailSpan(None, None)]
    assert starting_point.to_snapshot(POINTS["b1"], "b", "a1", POINTS) == [TrailSpan("b1", None)]
    assert starting_point.to_snapshot(POINTS["a1"], "c", "b1", POINTS) == [
        TrailSpan(None, None),
        TrailSpan(None, "b1"),
    ]


@pytest.mark.parametrize(
    ("wanted", "session", "base"), [("a2", "b", "a1"), ("b1", "a", None), ("a2", "c", "b1")]
)
def test_a_snapshot_of_another_timeline(wanted: str, session: str, base: str | None) -> None:
    """A snapshot outside of the session's past is refused: there is nothing to compare."""
    with pytest.raises(InvalidArgument, match="not an ancestor"):
        starting_point.to_snapshot(POINTS[wanted], session, base, POINTS)


def test_a_gap_in_the_lineage() -> None:
    """A removed snapshot in between, and one from an older version, are named."""
    without = {key: point for key, point in POINTS.items() if key != "b1"}
    with pytest.raises(InvalidArgument, match="b1, which lies in between, was removed"):
        starting_point.to_snapshot(POINTS["a1"], "c", "b1", without)
    with pytest.raises(InvalidArgument, match="did not record"):
        starting_point.to_snapshot(POINTS["old"], "a", None, POINTS)


def test_the_path_from_a_time_to_now() -> None:
    """From the last point that is not later; from the image if there is none."""
    assert starting_point.to_time(15.0, "a", None, POINTS) == [TrailSpan("a1", None)]
    assert starting_point.to_time(7.0, "a", None, POINTS) == [TrailSpan(None, None)]
    assert starting_point.to_time(25.0, "b", "a1", POINTS) == [TrailSpan(None, None)]
    assert starting_point.to_time(35.0, "b", "a1", POINTS) == [TrailSpan("b1", None)]
    assert starting_point.to_time(12.0, "c", "b1", POINTS) == [TrailSpan(None, None), TrailSpan(None, "b1")]
    assert starting_point.to_time(7.0, "b", "a1", POINTS) == [TrailSpan(None, None), TrailSpan(None, "a1")]


def test_a_baseline_is_kept(tmp_path: object) -> None:
    """The written one is read; without one there is none; a damaged one is an error that says so."""
    from pathlib import Path

    folder = Path(str(tmp_path))
    whole = Baseline(
        "abc",
        Holdings(at=5.0, seq=7),
        {"/w/\udcffa": PathEntry("new", "f", 5, 10**18, 0, 0), "/gone": PathEntry("deleted")},
        (("pip", SITE, "idna"),),
        ("3.4",),
    )
    assert baseline.read(folder) is None
    baseline.write(folder, whole)
    assert baseline.read(folder) == whole
    assert whole.known() == {("pip", SITE, "idna"): "3.4"}
    (folder / baseline.FILE).write_bytes((folder / baseline.FILE).read_bytes()[:50])
    with pytest.raises(SnapshotDamaged, match="cannot compare"):
        baseline.read(folder)


def test_an_entry_of_the_journal_in_one_line() -> None:
    """Changes by a command are reported by name, also where the session wrote something else there."""

    def line_of(told: dict[str, object]) -> str:
        return event_text.entry_line(
            JournalEntry("a" * 12, "work", 7, 1000.0, "changed", details=told), asked="work"
        )

    line = line_of(
        {"variables": {"A": [None, None]}, "names": 5, "functions": {f"f{n}": [] for n in range(30)}}
    )

    assert "changed A, f0, f1" in line
    assert line.endswith("…")
    assert "changed cwd" in line_of({"cwd": ["/a", "/b"]})
