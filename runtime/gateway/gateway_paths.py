"""The places of the gateway and the trusted roots in a session: fixed, because restored memory has them."""

from __future__ import annotations

ADDRESS, PORT = "192.0.2.1", 3128
"""An address of TEST-NET-1 (RFC 5737), which belongs to no one: the session's own rules redirect it."""
PROXY = f"http://{ADDRESS}:{PORT}"

TRUST = "/opt/holdfast/trust"
"""Folder of the host as a session with secrets sees it. Its image has a link of the same name to the system's
own roots, so that a program that remembers this place still finds roots where nothing is mounted.
"""
ROOTS = f"{TRUST}/roots.pem"
TRUST_VARIABLES = (
    "SSL_CERT_FILE",
    "REQUESTS_CA_BUNDLE",
    "CURL_CA_BUNDLE",
    "PIP_CERT",
    "NODE_EXTRA_CA_CERTS",
    "GIT_SSL_CAINFO",
)
"""Variables in which OpenSSL and Python, requests, curl, pip, Node.js and git look for trusted roots."""
