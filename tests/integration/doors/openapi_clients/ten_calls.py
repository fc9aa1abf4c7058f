"""Ten calls by a client that `openapi-python-client` has generated as `generated`; prints `ok: N`.

ADDRESS, TOKEN and SESSION are in the environment.
"""

import os
import sys
from typing import Any

from generated import AuthenticatedClient
from generated.api.files import files_find, files_list_folder, files_make_folder, files_stat
from generated.api.insight import insight_pulse
from generated.api.kernels import kernels_list_kernels
from generated.api.programs import programs_run
from generated.api.server import server_health
from generated.api.sessions import sessions_get_session, sessions_list_sessions, sessions_set_labels
from generated.api.shells import shells_check_syntax, shells_exec
from generated.models import (
    ErrorAnswer,
    ExecRequest,
    FolderRequest,
    LabelsRequest,
    RunRequest,
    SyntaxRequest,
)

client = AuthenticatedClient(base_url=os.environ["ADDRESS"], token=os.environ["TOKEN"])
session = os.environ["SESSION"]
checks = 0


def check(fact: Any) -> None:
    """Count a fact, which holds."""
    global checks
    assert fact
    checks += 1


check(server_health.sync(client=client).status == "ok")
check(sessions_get_session.sync(session, client=client).id == session)
check(session in [each.id for each in sessions_list_sessions.sync(client=client)])
done = shells_exec.sync(session, client=client, body=ExecRequest(command="echo $((6 * 7)); (exit 3)"))
check((done.exit_code, done.output.strip()) == (3, "42"))
check(shells_check_syntax.sync(session, client=client, body=SyntaxRequest(text="if")) is not None)
ran = programs_run.sync(session, client=client, body=RunRequest(argv=["printf", "%s", "é"]))
check(ran.exit_code == 0)
files_make_folder.sync_detailed(session, client=client, body=FolderRequest(path="/tmp/a/b", parents=True))
check(files_stat.sync(session, client=client, path="/tmp/a/b").kind == "folder")
check([each.name for each in files_list_folder.sync(session, client=client, path="/tmp/a")] == ["b"])
check(files_find.sync(session, client=client, path="/tmp/a", name="b") is not None)
check([each.name for each in kernels_list_kernels.sync(session, client=client)] == ["main"])
check(insight_pulse.sync(session, client=client) is not None)
check(
    sessions_set_labels.sync(
        session, client=client, body=LabelsRequest.from_dict({"labels": {"for": "a test"}})
    )
)
missing = shells_exec.sync("no-such-session", client=client, body=ExecRequest(command="true"))
check(isinstance(missing, ErrorAnswer) and missing.error.code == "session_not_found")
sys.stdout.write(f"ok: {checks}\n")
