"""Facts that the kernel reports in /proc and by sock_diag(7), as values.

Shared by the guest, the checkpointer and the host: it imports nothing but the standard library, and is copied
into the images of sessions and of the toolbox. The parsers are pure, bytes in and values out, and know
nothing of sessions or of CRIU. What they read may belong to a hostile process and may end in the middle: what
cannot be understood is left out, and never raises an error.
"""
