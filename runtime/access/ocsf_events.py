"""Rows of the audit trail as events of OCSF, which collectors of security events read: API Activity (6003).

Pure. An event says no more than its row: bodies, commands and addresses of callers are not in the trail.
"""

from __future__ import annotations

from typing import Any

from holdfast.base.version import VERSION
from holdfast.runtime.access.audit_trail import AuditedRequest

SCHEMA = "1.3.0"
CATEGORY, CLASS = 6, 6003
_ACTIVITIES = {"POST": (1, "Create"), "GET": (2, "Read"), "HEAD": (2, "Read"), "PUT": (3, "Update"),
               "PATCH": (3, "Update"), "DELETE": (4, "Delete")}  # fmt: skip
_OTHER = 99
_FIRST_FAILURE = 400
_USERS = {"person": (1, "User"), "system": (3, "System")}


def event(seq: int, row: AuditedRequest) -> dict[str, Any]:
    """Return the event of a row with its number in the trail.

    Calls of channels (`CALL`), tools (`TOOL`) and WebSockets (`WS`) are activities with names of their own.
    """
    activity, name = _ACTIVITIES.get(row.method, (_OTHER, row.method))
    failed = row.status >= _FIRST_FAILURE or row.status == 0
    kind = row.actor.partition(":")[0]
    type_id, type_ = _USERS.get(kind, (_OTHER, "Agent"))
    told: dict[str, Any] = {
        "category_uid": CATEGORY,
        "category_name": "Application Activity",
        "class_uid": CLASS,
        "class_name": "API Activity",
        "activity_id": activity,
        "activity_name": name,
        "type_uid": CLASS * 100 + activity,
        "type_name": f"API Activity: {name}",
        "severity_id": 1,
        "severity": "Informational",
        "status_id": 2 if failed else 1,
        "status": "Failure" if failed else "Success",
        "status_code": str(row.status),
        "time": round(row.at * 1000),
        "duration": round(row.seconds * 1000),
        "metadata": {
            "version": SCHEMA,
            "product": {"name": "Holdfast", "vendor_name": "Holdfast", "version": VERSION},
            "log_name": "audit",
            "sequence": seq,
            "uid": row.request,
        },
        "actor": {"user": {"name": row.actor, "type_id": type_id, "type": type_, "credential_uid": row.key}},
        "src_endpoint": {"name": row.actor},
        "api": {
            "operation": f"{row.method} {row.path}",
            "service": {"name": "holdfast serve"},
            "request": {"uid": row.request},
            "response": {"code": row.status},
        },
    }
    if row.method in _ACTIVITIES:
        told["http_request"] = {"http_method": row.method, "url": {"path": row.path}}
    if row.session:
        told["resources"] = [{"name": row.session, "type": "session"}]
    return told
