"""The families of verbs in `holdfast --help`, with one line per verb that distinguishes it from all others.

Pure data; what a verb does in full is its own help.
"""

from __future__ import annotations

from collections.abc import Mapping

FAMILIES: Mapping[str, Mapping[str, str]] = {
    "Every day": {
        "new": "Start a session.",
        "ls": "List sessions.",
        "exec": "Run a command in the session's shell.",
        "cell": "Run code in the session's Jupyter kernel.",
        "attach": "Join the session's terminal.",
        "pulse": "Show what is running and what it is waiting for.",
        "snapshot": "Capture a session, running processes included.",
        "restore": "Start a new session from a snapshot.",
        "fork": "Start several copies of a session or snapshot.",
        "rm": "End sessions and delete them.",
    },
    "Sessions": {
        "suspend": "Capture a session and free its memory.",
        "resume": "Continue a suspended session, or start a dead one again.",
        "rewind": "Take a session back to a snapshot, in place.",
        "network": "Show or change what a session can reach.",
        "shells": "List shells, open a further one, or close it.",
        "lease": "Show, take, return or hand over the shell.",
        "kernels": "List kernels, running and available ones; open or close one.",
        "kernel": "Interrupt or restart the Jupyter kernel.",
    },
    "Run": {
        "run": "Run a program without shell and terminal.",
        "cp": "Copy files into a session or out of it.",
        "wait": "Wait for a running command to end.",
        "send": "Type text and keys into the terminal.",
        "screen": "Show what the terminal shows now.",
        "jobs": "List commands started by `exec --detach`.",
        "job": "Show the state of one of them.",
        "output": "Print what one of them wrote.",
        "kill": "Send one of them a signal.",
    },
    "Work": {
        "task": "Record what is to be done, and how far it is.",
        "checkpoint": "Capture a session with the record of its task.",
        "handoff": "Print what a successor needs to continue.",
        "board": "Show where the tasks of all sessions stand.",
        "report": "Show what was done since a time, and verified how.",
        "artifact": "Fetch files that sessions have produced.",
    },
    "Observe": {
        "events": "Show deaths, waits, captures and refused connections.",
        "journal": "Show what was run, by whom, why, and its result.",
        "drift": "Show what has changed since a moment, and who did it.",
        "replay": "Play back what the terminal showed.",
        "watch": "Show changes of a session's files as they happen.",
    },
    "Snapshots": {
        "snapshots": "List snapshots.",
        "template": "Keep a session as a template for new ones.",
        "diff": "Show what differs between two snapshots.",
        "verify": "Check every stored byte, and repair what can be.",
        "redo": "Repeat in a new session what led to a snapshot.",
        "rmi": "Delete snapshots.",
        "serve-captures": "Take snapshots when programs in a session ask.",
    },
    "Move": {
        "move": "Move a session to another machine, live.",
        "receive": "Take in a session: `move` starts this over there.",
        "fits": "Show how much of a snapshot can run on this machine.",
        "thaw": "Fetch, check and restore a captured failure, and attach.",
        "export": "Write a snapshot to a signed file.",
        "import": "Read a snapshot from a file.",
        "push": "Send a snapshot to a registry.",
        "pull": "Fetch a snapshot from a registry.",
        "key": "Manage the keys that sign snapshots.",
    },
    "CI": {
        "ci": "Run a job; if it fails, capture it alive.",
        "retry": "Repeat a command from one snapshot: is it flaky?",
        "bisect": "Find the snapshot from which a command begins to fail.",
    },
    "Keep": {
        "policy": "Set when to capture automatically, and what to keep.",
        "autosnap": "Capture sessions when they are idle.",
        "pin": "Keep snapshots until they are deleted by hand.",
        "unpin": "Let policy and quota delete snapshots again.",
        "quota": "Limit the room that snapshots take.",
        "gc": "Delete what is expired, orphaned or over quota.",
    },
    "Agents": {
        "mcp": "Serve agents over the Model Context Protocol.",
        "serve": "Serve programs over HTTP and WebSockets.",
    },
    "Machine": {
        "doctor": "Try out what this machine supports.",
        "image": "Build and list the images of sessions.",
    },
}
