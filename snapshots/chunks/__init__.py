"""Process images, compressed, each page of memory kept once for all snapshots of a home.

Memory hardly changes between two snapshots of a session, and what changes is pages, wherever they are. So
files are cut into pages of 4 KiB, each named by its digest, and kept in packs: files that are written once,
each with a directory of its pages. A recipe tells where the pages of a snapshot's files are. The index only
finds pages again; packs and recipes are whole without it.
"""
