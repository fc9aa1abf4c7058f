"""What the kernel tells about processes in /proc: pure parsers, bytes in and values out, and a bounded walk.

The parsers know nothing of sessions or of CRIU. All that is read here may be of a hostile process and may
end in the middle: what cannot be understood is left out, never an error.
"""
