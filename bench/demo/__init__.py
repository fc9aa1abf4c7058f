"""The main job of Holdfast on real input: a test suite captured in its middle, killed, restored, forked."""
