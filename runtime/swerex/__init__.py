"""The wire that clients of SWE-ReX speak: a remote runtime's shells, commands and files are a session's."""
