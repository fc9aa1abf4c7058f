"""The wire that clients of E2B speak: sandboxes, their processes, files and code contexts."""
