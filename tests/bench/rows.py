"""Sample rows for tests."""

from bench.row import Row, skipped
from bench.stats import Series, Target

FAST = Series("Holdfast", "s", (0.001, 0.002, 0.003))
SLOW = Series("docker exec", "s", (0.05, 0.06, 0.07))
EXEC = Row("exec true", "exec true", FAST, baseline=SLOW, target=Target(0.1, "ratio", "no new process"))
FREEZE = Row(
    "snapshots",
    "freeze",
    Series("Holdfast", "s", (0.4, 0.6, 0.5)),
    group="1 GiB",
    target=Target(0.45, "value", "100 ms + 6 × memcpy"),
)
BYTES = Row("snapshots", "bytes", Series("Holdfast", "bytes", (3.0 * (1 << 20),)))
TORN = Row("one instant", "torn", Series("Podman", "count", (1.0, 1.0, 0.0)), statistic="sum")
GONE = skipped("snapshots", "freeze", "gVisor", "cannot run <runsc> | it is missing")
ALL = (EXEC, FREEZE, BYTES, TORN, GONE)
ABOUT = {
    "at": "2030-01-02T03:04:05+00:00",
    "cpus": 2,
    "cpu": "A & B",
    "kernel": "6.18",
    "engine": "20.10",
    "storage": "overlay2",
    "quick": False,
}
