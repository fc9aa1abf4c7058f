"""The command line: one file for each family of verbs, and no logic in them."""
