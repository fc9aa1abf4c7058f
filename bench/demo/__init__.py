"""The main job of Holdfast on real input: a test suite captured halfway, killed, restored, forked."""
