import json
from dataclasses import replace

import pytest
from tests.bench.rows import ABOUT, ALL, EXEC, FREEZE, GONE, TORN

from bench import row


def test_a_row_compares_equal_statistics() -> None:
    """Median is compared with median, p99 with p99."""
    p99 = replace(EXEC, statistic="p99")

    assert pytest.approx(0.002 / 0.06) == EXEC.ratio
    assert p99.ratio == pytest.approx(0.00298 / 0.0698)


def test_verdicts() -> None:
    """Each row is judged by its own target; one without figures is not."""
    assert [each.verdict for each in (EXEC, FREEZE, TORN, GONE)] == ["pass", "miss", "-", "-"]


def test_result_survives_json() -> None:
    """A result written as JSON is read back as the same rows."""
    written = json.dumps(row.dump(ALL, ABOUT), allow_nan=False)

    assert row.load(json.loads(written)) == list(ALL)


def test_result_of_a_different_version_is_refused() -> None:
    """A result of an unknown shape is not guessed at."""
    with pytest.raises(ValueError, match="version 0"):
        row.load({"version": 0, "rows": []})
