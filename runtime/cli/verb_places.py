"""The module and the function of every verb, in the order in which the verbs were added.

Pure data: a command line loads the module of its verb and no other, because all of them take longer to load
than most commands take to run.
"""

from __future__ import annotations

from collections.abc import Mapping

VERBS: Mapping[str, tuple[str, str]] = {
    "doctor": ("doctor_verbs", "doctor"),
    "image": ("image_verbs", "app"),
    "ci": ("ci_verbs", "app"),
    "new": ("session_verbs", "new"),
    "ls": ("session_verbs", "ls"),
    "network": ("network_verbs", "network"),
    "exec": ("shell_verbs", "exec_"),
    "wait": ("shell_verbs", "wait"),
    "cell": ("kernel_verbs", "cell"),
    "jobs": ("job_verbs", "jobs"),
    "job": ("job_verbs", "job"),
    "output": ("job_verbs", "output_"),
    "kill": ("job_verbs", "kill"),
    "run": ("program_verbs", "run"),
    "cp": ("file_verbs", "cp"),
    "events": ("event_verbs", "events"),
    "journal": ("journal_verbs", "journal"),
    "send": ("shell_verbs", "send"),
    "screen": ("shell_verbs", "screen"),
    "attach": ("attach_verbs", "attach"),
    "pulse": ("pulse_verbs", "pulse"),
    "lease": ("lease_verbs", "lease"),
    "shells": ("shell_set_verbs", "shells"),
    "replay": ("recording_verbs", "replay"),
    "watch": ("watch_verbs", "watch"),
    "drift": ("drift_verbs", "drift"),
    "task": ("task_verbs", "app"),
    "checkpoint": ("task_verbs", "checkpoint"),
    "handoff": ("task_verbs", "handoff"),
    "board": ("task_verbs", "board"),
    "report": ("report_verbs", "report"),
    "artifact": ("artifact_verbs", "app"),
    "diff": ("diff_verbs", "diff"),
    "snapshot": ("snapshot_verbs", "snapshot"),
    "template": ("snapshot_verbs", "template"),
    "serve-captures": ("capture_verbs", "serve_captures"),
    "snapshots": ("lineage_verbs", "snapshots"),
    "restore": ("snapshot_verbs", "restore"),
    "thaw": ("thaw_verbs", "thaw"),
    "fits": ("fitness_verbs", "fits"),
    "retry": ("retry_verbs", "retry"),
    "bisect": ("retry_verbs", "bisect"),
    "fork": ("snapshot_verbs", "fork"),
    "rewind": ("lineage_verbs", "rewind"),
    "pin": ("retention_verbs", "pin"),
    "unpin": ("retention_verbs", "unpin"),
    "policy": ("retention_verbs", "policy"),
    "quota": ("retention_verbs", "quota"),
    "autosnap": ("retention_verbs", "autosnap"),
    "gc": ("retention_verbs", "gc"),
    "suspend": ("snapshot_verbs", "suspend"),
    "resume": ("snapshot_verbs", "resume"),
    "rm": ("session_verbs", "rm"),
    "rmi": ("snapshot_verbs", "rmi"),
    "verify": ("verify_verbs", "verify"),
    "export": ("transfer_verbs", "export"),
    "import": ("transfer_verbs", "import_"),
    "move": ("move_verbs", "move"),
    "receive": ("move_verbs", "receive"),
    "push": ("registry_verbs", "push"),
    "pull": ("registry_verbs", "pull"),
    "key": ("key_verbs", "app"),
    "mcp": ("mcp_verbs", "mcp"),
    "serve": ("serve_verbs", "serve"),
    "kernels": ("kernel_set_verbs", "kernels"),
    "kernel": ("kernel_verbs", "app"),
    "redo": ("redo_verbs", "redo"),
}
GROUP = "app"
"""Instead of a function: the verb has verbs of its own."""
SEPARATED = ("exec", "retry", "bisect")
"""Verbs that know whether `--` sets their last arguments apart."""
