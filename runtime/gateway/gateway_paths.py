"""Where a session finds the gateway, and whom to trust: the same everywhere, as restored memory has it."""

from __future__ import annotations

ADDRESS, PORT = "192.0.2.1", 3128
"""An address of TEST-NET-1 (RFC 5737), which nobody has: the session's own rules lead on."""
PROXY = f"http://{ADDRESS}:{PORT}"

TRUST = "/opt/holdfast/trust"
"""Where a session with secrets sees a folder of the host. In its image a link of the same name leads to the
system's own roots, so that what remembers this place still finds something where nothing is mounted."""
ROOTS = f"{TRUST}/roots.pem"
TRUST_VARIABLES = (
    "SSL_CERT_FILE",
    "REQUESTS_CA_BUNDLE",
    "CURL_CA_BUNDLE",
    "PIP_CERT",
    "NODE_EXTRA_CA_CERTS",
    "GIT_SSL_CAINFO",
)
"""Where OpenSSL and Python, requests, curl, pip, Node.js and git look for whom to trust."""
