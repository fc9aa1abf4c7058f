"""The limits of a judged session: a larger one is neither captured nor restored. Numbers only.

A judge that stopped half-way would let the rest pass. So that no snapshot is taken that can never come back,
the look before a capture, the capture and the restore all count against these.
"""

from __future__ import annotations

MAX_PROCESSES = 20_000
MAX_DESCRIPTORS = 100_000
"""Of all processes together; where two share a table, it counts for each."""
MAX_NAMES = 64 << 20
"""Characters of all names of descriptors together: each name is reported as often as it is open."""
MAX_THREADS = 100_000
"""Of all processes together. Each has an image; no session has more (its limit counts threads)."""
MAX_GROUPS = 1 << 20
"""Supplementary groups of all threads together. One may be in 65536 (setgroups(2))."""
MAX_MAPPED = 200_000
"""Different files that are mapped; a process has at most 65530 mappings (vm.max_map_count)."""
MAX_FILES = 256
"""Open files whose content is compared."""
MAX_ANSWER = 8 << 20
"""Bytes. The host names all of these, each by up to 4096 characters of up to 6 bytes (control characters)."""
