"""Every route of every door, in the row of the table in docs/security.md that names its permitted callers."""

from __future__ import annotations

ROUTES = {
    "own API (`/v1`, `/health`, `/metrics`, channels)": """
        GET /openapi.json
        HEAD /openapi.json
        GET /health
        GET /metrics
        DELETE /v1/waits/{request}
        GET /v1/route
        GET /v1/sessions
        POST /v1/sessions
        GET /v1/sessions/{session}
        DELETE /v1/sessions/{session}
        POST /v1/sessions/{session}/snapshots
        POST /v1/sessions/{session}/template
        GET /v1/sessions/{session}/check
        POST /v1/sessions/{session}/fork
        POST /v1/sessions/{session}/suspend
        POST /v1/sessions/{session}/resume
        POST /v1/sessions/{session}/rewind
        GET /v1/sessions/{session}/network
        PATCH /v1/sessions/{session}/network
        PATCH /v1/sessions/{session}/lifetime
        PATCH /v1/sessions/{session}/policy
        POST /v1/sessions/{session}/exec
        GET /v1/sessions/{session}/commands/{command_id}
        POST /v1/sessions/{session}/answer
        POST /v1/sessions/{session}/interrupt
        POST /v1/sessions/{session}/check-syntax
        GET /v1/sessions/{session}/shells
        POST /v1/sessions/{session}/shells
        GET /v1/sessions/{session}/shells/{shell}
        DELETE /v1/sessions/{session}/shells/{shell}
        GET /v1/sessions/{session}/shells/{shell}/screen
        POST /v1/sessions/{session}/shells/{shell}/input
        GET /v1/sessions/{session}/shells/{shell}/lease
        POST /v1/sessions/{session}/shells/{shell}/lease
        POST /v1/sessions/{session}/cells
        GET /v1/sessions/{session}/cells/{cell_id}
        POST /v1/sessions/{session}/cells/{cell_id}/answer
        GET /v1/sessions/{session}/kernels
        GET /v1/sessions/{session}/kernel-specs
        POST /v1/sessions/{session}/kernels
        DELETE /v1/sessions/{session}/kernels/{kernel}
        POST /v1/sessions/{session}/kernels/{kernel}/interrupt
        POST /v1/sessions/{session}/kernels/{kernel}/restart
        POST /v1/sessions/{session}/run
        GET /v1/sessions/{session}/programs
        POST /v1/sessions/{session}/programs
        GET /v1/sessions/{session}/programs/{program}
        GET /v1/sessions/{session}/programs/{program}/output
        POST /v1/sessions/{session}/programs/{program}/input
        POST /v1/sessions/{session}/programs/{program}/signal
        GET /v1/sessions/{session}/jobs
        POST /v1/sessions/{session}/jobs
        GET /v1/sessions/{session}/jobs/{job}
        GET /v1/sessions/{session}/jobs/{job}/output
        POST /v1/sessions/{session}/jobs/{job}/input
        POST /v1/sessions/{session}/jobs/{job}/size
        POST /v1/sessions/{session}/jobs/{job}/signal
        GET /v1/sessions/{session}/pulse
        GET /v1/sessions/{session}/metrics
        POST /v1/sessions/{session}/files/address
        GET /v1/sessions/{session}/files/find
        POST /v1/sessions/{session}/files/mode
        POST /v1/sessions/{session}/files/replace
        PUT /v1/sessions/{session}/files/many
        PUT /v1/sessions/{session}/labels
        GET /v1/sessions/{session}/ports
        POST /v1/sessions/{session}/ports/{port}/preview
        DELETE /v1/sessions/{session}/ports/{port}/preview
        GET /v1/sessions/{session}/links
        POST /v1/sessions/{session}/links
        DELETE /v1/sessions/{session}/links/{link}
        GET /v1/sessions/{session}/ports/{port}
        GET /v1/sessions/{session}/ports/{port}/wait
        GET /v1/sessions/{session}/journal
        GET /v1/sessions/{session}/drift
        GET /v1/sessions/{session}/events
        GET /v1/sessions/{session}/files/watch
        GET /v1/sessions/{session}/shells/{shell}/recording
        GET /v1/sessions/{session}/shells/{shell}/recording/events
        GET /v1/sessions/{session}/shells/{shell}/recording/cast
        GET /v1/sessions/{session}/files/content
        PUT /v1/sessions/{session}/files/content
        GET /v1/sessions/{session}/files/stat
        GET /v1/sessions/{session}/files/list
        POST /v1/sessions/{session}/files/folders
        POST /v1/sessions/{session}/files/move
        DELETE /v1/sessions/{session}/files
        GET /v1/sessions/{session}/files/tree
        PUT /v1/sessions/{session}/files/tree
        GET /v1/snapshots
        GET /v1/snapshots/diff
        GET /v1/snapshots/{snapshot}
        DELETE /v1/snapshots/{snapshot}
        PATCH /v1/snapshots/{snapshot}
        GET /v1/snapshots/{snapshot}/fits
        GET /v1/snapshots/{snapshot}/commands
        GET /v1/snapshots/{snapshot}/actions
        POST /v1/snapshots/{snapshot}/redo
        POST /v1/snapshots/{snapshot}/restore
        POST /v1/snapshots/{snapshot}/fork
        POST /v1/snapshots/{snapshot}/retry
        GET /v1/board
        GET /v1/report
        GET /v1/sessions/{session}/task
        GET /v1/sessions/{session}/task/markdown
        GET /v1/sessions/{session}/task/handoff
        POST /v1/sessions/{session}/task/set
        POST /v1/sessions/{session}/task/plan
        POST /v1/sessions/{session}/task/import
        POST /v1/sessions/{session}/task/step
        POST /v1/sessions/{session}/task/claim
        POST /v1/sessions/{session}/task/release
        POST /v1/sessions/{session}/task/decide
        POST /v1/sessions/{session}/task/alternative
        POST /v1/sessions/{session}/task/note
        POST /v1/sessions/{session}/task/answer
        POST /v1/sessions/{session}/task/read-again
        POST /v1/sessions/{session}/task/artifact
        POST /v1/sessions/{session}/task/artifacts
        GET /v1/sessions/{session}/task/orphans
        POST /v1/sessions/{session}/task/drop
        POST /v1/sessions/{session}/task/block
        POST /v1/sessions/{session}/task/unblock
        POST /v1/sessions/{session}/task/done
        POST /v1/sessions/{session}/task/attempt
        POST /v1/sessions/{session}/task/checkpoint
        POST /v1/sessions/{session}/task/resume
        GET /v1/notices
        POST /v1/notices
        GET /v1/keys
        POST /v1/keys
        DELETE /v1/keys/{key}
        GET /v1/audit
        GET /v1/notices/push-key
        DELETE /v1/notices/{subscription}
        POST /v1/notices/{subscription}/try
        GET /v1/artifacts
        GET /v1/artifacts/entry
        GET /v1/artifacts/content
        DELETE /v1/artifacts
        WS /v1/channels
        WS /v1/sessions/{session}/ssh
    """,
    "web page (`/`, `/page`)": """
        GET /
        HEAD /
        GET /page/{name}
        HEAD /page/{name}
        POST /page/keys
    """,
    "sign-in of people (`/sign-in`)": """
        GET /sign-in
        HEAD /sign-in
        POST /sign-in/key
        POST /sign-in/end
        POST /sign-in/challenges
        POST /sign-in/tokens
        GET /sign-in/with/{issuer}
        HEAD /sign-in/with/{issuer}
        GET /sign-in/with/{issuer}/back
        HEAD /sign-in/with/{issuer}/back
    """,
    "tickets for the web page (`/page/tickets`)": """
        POST /page/tickets
    """,
    "MCP (`/mcp`)": """
        ANY /mcp
    """,
    "SWE-ReX (`/swerex`)": """
        GET /swerex/{session}/is_alive
        POST /swerex/{session}/create_session
        POST /swerex/{session}/run_in_session
        POST /swerex/{session}/close_session
        POST /swerex/{session}/execute
        POST /swerex/{session}/read_file
        POST /swerex/{session}/write_file
        POST /swerex/{session}/upload
        POST /swerex/{session}/close
    """,
    "Jupyter (`/api`, `/jupyter`)": """
        GET /api
        HEAD /api
        GET /api/status
        HEAD /api/status
        GET /api/kernelspecs
        HEAD /api/kernelspecs
        GET /api/kernelspecs/{spec}
        HEAD /api/kernelspecs/{spec}
        GET /api/kernels
        HEAD /api/kernels
        POST /api/kernels
        GET /api/kernels/{kernel}
        HEAD /api/kernels/{kernel}
        DELETE /api/kernels/{kernel}
        POST /api/kernels/{kernel}/interrupt
        POST /api/kernels/{kernel}/restart
        WS /api/kernels/{kernel}/channels
        GET /api/sessions
        HEAD /api/sessions
        POST /api/sessions
        GET /api/sessions/{notebook}
        HEAD /api/sessions/{notebook}
        PATCH /api/sessions/{notebook}
        DELETE /api/sessions/{notebook}
    """,
    "E2B: sandboxes as wholes, snapshots, templates": """
        POST /sandboxes
        POST /v2/sandboxes
        GET /sandboxes
        GET /v2/sandboxes
        GET /sandboxes/{sandbox}
        DELETE /sandboxes/{sandbox}
        POST /sandboxes/{sandbox}/resume
        POST /v2/sandboxes/{sandbox}/connect
        POST /sandboxes/{sandbox}/connect
        POST /sandboxes/{sandbox}/timeout
        POST /sandboxes/{sandbox}/refreshes
        POST /sandboxes/{sandbox}/pause
        POST /sandboxes/{sandbox}/snapshots
        GET /snapshots
        DELETE /templates/{template:path}
        POST /sandboxes/{sandbox}/fork
        GET /sandboxes/{sandbox}/metrics
        GET /sandboxes/metrics
        PUT /sandboxes/{sandbox}/network
    """,
    "E2B: processes, folders, code": """
        GET /health (code)
        POST /execute (code)
        POST /process.Process/List
        POST /process.Process/Start
        POST /process.Process/Connect
        POST /process.Process/Update
        POST /process.Process/SendInput
        POST /process.Process/StreamInput
        POST /process.Process/CloseStdin
        POST /process.Process/SendSignal
        POST /filesystem.Filesystem/Stat
        POST /filesystem.Filesystem/ListDir
        POST /filesystem.Filesystem/MakeDir
        POST /filesystem.Filesystem/Move
        POST /filesystem.Filesystem/Remove
        POST /filesystem.Filesystem/WatchDir
        POST /filesystem.Filesystem/CreateWatcher
        POST /filesystem.Filesystem/GetWatcherEvents
        POST /filesystem.Filesystem/RemoveWatcher
        GET /health (sandbox)
        GET /envs
        POST /files/compose
    """,
    "E2B: content of a file (`/files`)": """
        GET /files
        POST /files
    """,
    "E2B: contexts of code (`/contexts`)": """
        POST /contexts (code)
        GET /contexts (code)
        DELETE /contexts/{context} (code)
        POST /contexts/{context}/restart (code)
    """,
    "ports of a sandbox": """
        ANY (port)
    """,
}
"""By row: a method and a path in each line. A route that is in no row is in no table, and fails the tests."""
