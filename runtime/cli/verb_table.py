"""All verbs: their families as `holdfast --help` shows them, a line for each, and the place of its function.

The line distinguishes a verb from all others; its own help describes it in full. A command line loads the
module of its verb and no other, because all of them take longer to load than most commands take to run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from holdfast.runtime.cli import grammar

_Place = str | Mapping[str, str]
FAMILIES: Mapping[str, Mapping[str, tuple[str, _Place]]] = {
    "Every day": {
        "new": ("Start a session.", "session_verbs:new"),
        "ls": ("List sessions.", "session_verbs:ls"),
        "exec": ("Run a command in the session's shell.", "shell_verbs:exec_"),
        "cell": ("Run code in the session's Jupyter kernel.", "kernel_verbs:cell"),
        "attach": ("Join the session's terminal.", "terminal_verbs:attach"),
        "pulse": ("Show running processes, and the input they wait for.", "pulse_verbs:pulse"),
        "snapshot": ("Capture a session, running processes included.", "snapshot_verbs:snapshot"),
        "restore": ("Start a new session from a snapshot.", "snapshot_verbs:restore"),
        "fork": ("Start several copies of a session or snapshot.", "snapshot_verbs:fork"),
        "rm": ("End sessions and delete them.", "session_verbs:rm"),
    },
    "Sessions": {
        "suspend": ("Capture a session and free its memory.", "snapshot_verbs:suspend"),
        "resume": ("Continue a suspended session, or start a dead one again.", "snapshot_verbs:resume"),
        "rewind": ("Take a session back to a snapshot, in place.", "history_verbs:rewind"),
        "network": ("Show or change what a session can reach.", "session_verbs:network"),
        "preview": ("Print a link to a port, for a browser.", "preview_verbs:preview"),
        "ssh-config": ("Print the configuration by which ssh reaches sessions.", "ssh_verbs:ssh_config"),
        "ssh-proxy": ("Join a program to a session's ssh server.", "ssh_verbs:ssh_proxy"),
        "shells": ("List shells, open a further one, or close it.", "terminal_verbs:shells"),
        "lease": ("Show, take, return or hand over the shell.", "terminal_verbs:lease"),
        "kernels": (
            "List kernels, running and available ones; open or close one.",
            "kernel_verbs:kernels",
        ),
        "kernel": (
            "Interrupt or restart the Jupyter kernel.",
            {
                "interrupt": "kernel_verbs:interrupt",
                "restart": "kernel_verbs:restart",
            },
        ),
    },
    "Run": {
        "run": ("Run a program without a shell or terminal.", "run_verbs:run"),
        "cp": ("Copy files into a session or out of it.", "file_verbs:cp"),
        "wait": ("Wait for a running command to end.", "shell_verbs:wait"),
        "send": ("Type text and keys into the terminal.", "shell_verbs:send"),
        "screen": ("Show the terminal's screen.", "shell_verbs:screen"),
        "jobs": ("List commands started by `exec --detach`.", "run_verbs:jobs"),
        "job": ("Show the state of one of them.", "run_verbs:job"),
        "output": ("Print what one of them wrote.", "run_verbs:output_"),
        "kill": ("Send one of them a signal.", "run_verbs:kill"),
    },
    "Work": {
        "task": (
            "Record goal, plan and progress of the work.",
            {
                "set": "task_verbs:set_",
                "plan": "task_verbs:plan",
                "step": "task_verbs:step",
                "claim": "task_verbs:claim",
                "release": "task_verbs:release",
                "done": "task_verbs:done",
                "attempt": "task_verbs:attempt",
                "decide": "task_verbs:decide",
                "alternative": "task_verbs:alternative",
                "answer": "task_verbs:answer",
                "note": "task_verbs:note",
                "reread": "task_verbs:reread",
                "artifact": "task_verbs:artifact",
                "artifacts": "task_verbs:artifacts",
                "drop": "task_verbs:drop",
                "block": "task_verbs:block",
                "unblock": "task_verbs:unblock",
                "show": "task_verbs:show",
                "import": "task_verbs:import_",
                "resume": "task_verbs:resume",
            },
        ),
        "checkpoint": ("Capture a session with the record of its task.", "task_verbs:checkpoint"),
        "handoff": ("Print what a successor needs to continue.", "task_verbs:handoff"),
        "board": ("Show the progress of all sessions' tasks.", "task_verbs:board"),
        "report": ("Show the work done since a time, and how it was verified.", "work_verbs:report"),
        "artifact": (
            "Fetch files that sessions have produced.",
            {
                "ls": "work_verbs:list_",
                "get": "work_verbs:get",
                "rm": "work_verbs:remove",
            },
        ),
    },
    "Observe": {
        "events": ("Show deaths, waits, captures and refused connections.", "observe_verbs:events"),
        "journal": ("Show commands that ran: by whom, why, and with which result.", "observe_verbs:journal"),
        "drift": ("Show changes since a moment, and their actors.", "history_verbs:drift"),
        "metrics": ("Show a session's use of the machine in the last day.", "observe_verbs:metrics"),
        "replay": ("Play back what the terminal showed.", "observe_verbs:replay"),
        "ports": ("Show which programs listen in a session, and their answers.", "preview_verbs:ports"),
        "watch": ("Show changes of a session's files as they happen.", "file_verbs:watch"),
    },
    "Snapshots": {
        "snapshots": ("List snapshots.", "history_verbs:snapshots"),
        "template": ("Keep a session as a template for new ones.", "snapshot_verbs:template"),
        "diff": ("Show the differences between two snapshots.", "history_verbs:diff"),
        "verify": ("Check every stored byte, and repair damage where possible.", "history_verbs:verify"),
        "redo": ("Repeat in a new session what led to a snapshot.", "history_verbs:redo"),
        "rmi": ("Delete snapshots.", "snapshot_verbs:rmi"),
        "serve-captures": (
            "Take snapshots when programs in a session ask.",
            "retention_verbs:serve_captures",
        ),
    },
    "Move": {
        "move": ("Move a session to another machine, live.", "elsewhere_verbs:move"),
        "receive": ("Receive a session: `move` starts this on the other machine.", "elsewhere_verbs:receive"),
        "fits": ("Show how much of a snapshot can run on this machine.", "elsewhere_verbs:fits"),
        "thaw": ("Fetch, check and restore a captured failure, and attach.", "elsewhere_verbs:thaw"),
        "export": ("Write a snapshot to a signed file.", "transfer_verbs:export"),
        "import": ("Read a snapshot from a file.", "transfer_verbs:import_"),
        "push": ("Send a snapshot to a registry.", "transfer_verbs:push"),
        "pull": ("Fetch a snapshot from a registry.", "transfer_verbs:pull"),
        "key": (
            "Manage the keys that sign snapshots.",
            {
                "new": "transfer_verbs:new",
                "trust": "transfer_verbs:trust",
                "list": "transfer_verbs:list_",
                "rm": "transfer_verbs:rm",
            },
        ),
    },
    "CI": {
        "ci": (
            "Run a job; if it fails, capture it alive.",
            {
                "run": "ci_verbs:run",
            },
        ),
        "retry": ("Repeat a command from one snapshot: is it flaky?", "ci_verbs:retry"),
        "bisect": ("Find the snapshot from which a command begins to fail.", "ci_verbs:bisect"),
    },
    "Keep": {
        "lifetime": ("Set when a session ends, and when it sleeps.", "session_verbs:lifetime"),
        "policy": (
            ("Set when to capture automatically, and what to keep."),
            "retention_verbs:policy",
        ),
        "autosnap": (
            "Carry out lifetimes, and capture sessions when they are idle.",
            "retention_verbs:autosnap",
        ),
        "pin": ("Keep snapshots until they are deleted by hand.", "retention_verbs:pin"),
        "unpin": ("Let policy and quota delete snapshots again.", "retention_verbs:unpin"),
        "quota": ("Limit sessions, their use of the machine, and snapshots.", "retention_verbs:quota"),
        "gc": ("Delete what is expired, orphaned or over quota.", "retention_verbs:gc"),
    },
    "Agents": {
        "mcp": ("Serve agents over the Model Context Protocol.", "server_verbs:mcp"),
        "serve": ("Serve programs, and the web page, over HTTP and WebSockets.", "server_verbs:serve"),
        "node": ("Serve as a node of a cluster, which outlives its machines.", "node_verbs:node"),
        "cluster": (
            "Show and manage a cluster of machines.",
            {
                "init": "cluster_verbs:init",
                "nodes": "cluster_verbs:nodes",
                "ls": "cluster_verbs:list_",
                "drain": "cluster_verbs:drain",
                "wake": "cluster_verbs:wake",
            },
        ),
        "open": ("Open the web page of `holdfast serve`.", "page_verbs:open_"),
        "notices": (
            "Be notified when a session waits, ends, fails or dies.",
            {
                "ls": "notice_verbs:ls",
                "add": "notice_verbs:add",
                "test": "notice_verbs:try_out",
                "rm": "notice_verbs:rm",
                "watch": "notice_verbs:watch",
            },
        ),
        "share": ("Let others watch a session in their browser, or type in it.", "share_verbs:share"),
        "access": (
            "Manage keys with which agents and people use a server.",
            {
                "new": "access_verbs:new",
                "ls": "access_verbs:list_",
                "rm": "access_verbs:remove",
                "people": "access_verbs:people",
                "forget": "access_verbs:forget",
            },
        ),
        "login": ("Sign in at a server as a person.", "login_verbs:login"),
        "logout": ("Sign out at a server.", "login_verbs:logout"),
        "team": (
            "Manage teams: separate homes behind one server.",
            {
                "new": "team_verbs:new",
                "ls": "team_verbs:list_",
                "store": "team_verbs:store",
                "rm": "team_verbs:remove",
            },
        ),
        "audit": (
            "Show and check requests to a server, and their callers.",
            {
                "show": "access_verbs:show",
                "verify": "access_verbs:verify",
            },
        ),
    },
    "Machine": {
        "doctor": ("Try out what this machine supports.", "machine_verbs:doctor"),
        "pool": ("Show or set the number of sessions that wait ready.", "pool_verbs:pool"),
        "image": (
            "Build and list the images of sessions.",
            {
                "build": "machine_verbs:build",
                "ls": "machine_verbs:ls",
            },
        ),
    },
}
"""A place is MODULE:FUNCTION, or the places of the verbs below a group."""
VERBS: Mapping[str, tuple[str, _Place]] = {
    verb: entry for verbs in FAMILIES.values() for verb, entry in verbs.items()
}


def below(verb: str) -> Mapping[str, str]:
    """Return the places of the verbs below a group; empty for a verb that is not a group."""
    place = VERBS[verb][1]
    return {} if isinstance(place, str) else place


def paths() -> Iterator[str]:
    """Yield the words of each verb that can be called: `exec`, `key new`."""
    for verb in VERBS:
        yield from (f"{verb} {name}" for name in below(verb)) if below(verb) else (verb,)


def load(path: str) -> grammar.Verb:
    """Return the verb of these words, with its module loaded."""
    import importlib

    verb, _, name = path.partition(" ")
    place = below(verb)[name] if name else VERBS[verb][1]
    module, _, function = str(place).partition(":")
    return grammar.Verb(path, getattr(importlib.import_module(f"holdfast.runtime.cli.{module}"), function))
